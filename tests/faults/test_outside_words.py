"""No secret in the output of other programs is kept or shown, and the log stays JSON."""

import json
import random
import re
import signal

import http_clients
from conductor_projects import QUICK, TRACK, asked, configure, run_after, track, with_beads
from conftest import contents_below, wait_for
from mail_server import MailServer
from planted_secrets import draw


def failing(directory, name, errors, output=""):
    """Put a program into a directory that fails with this text on both streams."""
    program = directory / name
    program.parent.mkdir(exist_ok=True)
    program.write_text(
        f"#!/bin/sh\necho 'Error: fatal: {output}'\necho 'fatal: {errors}' >&2\nexit 128\n"
    )
    program.chmod(0o755)
    return program


def test_secrets_in_errors_of_other_programs(sandbox, tmp_path_factory, record_property):
    """Tokens in the errors of git, bd and a mail server are in no reply, file, database or log."""
    chance = random.Random(19)
    sources = ("mail", "bd", "output of bd", "git", "output of git")
    secrets = {source: draw("ghp_<w36>", chance) for source in sources}
    with MailServer(mode="refuse") as server:
        config = f'[log]\nlevel = "debug"\n[mail]\nurl = "{server.url}"\n'
        beads = with_beads(sandbox, "current", tmp_path_factory, config, how="scripted")
        epic = beads.epic()
        track(beads.root, beads={"epicId": epic})
        server.refusal = f"the database of {secrets['mail']} is on fire"
        usual = beads.program.rename(beads.program.with_name("usual"))
        broken = failing(beads.program.parent, "broken", secrets["bd"], secrets["output of bd"])
        beads.program.write_text(
            f'#!/bin/sh\ncase $1 in version|update) exec {usual} "$@";; esac\nexec {broken}\n'
        )
        beads.program.chmod(0o755)
        git = failing(sandbox.home / "bin", "git", secrets["git"], secrets["output of git"])
        sandbox.environment["PATH"] = f"{git.parent}:{sandbox.environment['PATH']}"
        run_after(sandbox, QUICK).start()
        sandbox.session(beads.root).prompt("Round the tax per line")
        wait_for(lambda: "Round the tax" in sandbox.yaml(beads.root))
        replies = [asked(sandbox, "create", cwd=beads.root)]
        codes = {"git_silent", "beads_silent"}

        def warnings():
            return sandbox.request("status")["result"]["warnings"]

        wait_for(lambda: codes <= {item["code"] for item in warnings()}, what="both are told")
        wait_for(lambda: "on fire" in str(sandbox.call("triggers", cwd="/", all=True)))
        methods = ("status", "show", "triggers", "doctor", "list")
        replies += [sandbox.request(method, cwd=str(beads.root)) for method in methods]
        for command in (("doctor",), ("resume",), ("triggers", "--all"), ("status",)):
            done = sandbox.handoff(*command, cwd=beads.root)
            replies.append(done.stdout + done.stderr)
        sandbox.stop()
    places = (sandbox.state, sandbox.home / ".claude/handoffs", beads.root)
    texts = {"replies": json.dumps(replies).encode()}
    texts |= {str(path): text for path, text in contents_below(*places).items()}
    texts[str(sandbox.log)] = sandbox.log.read_bytes()

    assert [] == [
        (source, name)
        for source, secret in secrets.items()
        for name, text in texts.items()
        if secret[4:].encode() in text
    ]
    assert "on fire" in str(replies)
    assert "redacted:" in str(replies)
    record_property(
        "figure", f"0 of {len(secrets)} in {len(replies)} replies and {len(texts) - 1} files"
    )


def test_a_mail_that_holds_a_secret(sandbox):
    """A handoff that comes by mail is masked before it is shown."""
    secret = draw("ghp_<w36>", random.Random(5))
    with MailServer() as server:
        sandbox.transcripts.mkdir(parents=True)
        project = sandbox.project()
        track(project)
        configure(sandbox, f'[mail]\nurl = "{server.url}"\n')
        sandbox.start()
        asked(sandbox, "create", cwd=project)
        (sent,) = wait_for(lambda: server.messages, what="a mail was sent")
        body = re.sub(r"(?m)^- ", f"- {secret} ", sent["body_md"])
        sent |= {"body_md": body, "created_ts": "2099-01-01T00:00:00Z"}
        done = sandbox.handoff("resume", TRACK, cwd=project)
        sandbox.stop()

    assert "from mail" in done.stdout + done.stderr
    assert "[redacted:" in done.stdout
    assert secret not in done.stdout + done.stderr + sandbox.log.read_text()


# The job of the records goes on as long as a file is there, so that its next run is skipped.
HELD = """
import asyncio, os, handoffd.tracks.record_maker
usual = handoffd.tracks.record_maker.RecordMaker.look
async def look(self):
    await usual(self)
    while os.path.exists({flag!r}):
        await asyncio.sleep(0.05)
handoffd.tracks.record_maker.RecordMaker.look = look
"""


def test_every_line_of_the_log_is_json(sandbox, tmp_path_factory, record_property):
    """The log has only JSON lines after failing programs, HTTP, a late job and a stop in it."""
    with MailServer(mode="refuse") as server:
        beads = with_beads(sandbox, "current", tmp_path_factory, how="scripted")
        port = http_clients.configure(sandbox)
        config = sandbox.home / ".config/handoffd/config.toml"
        config.write_text(
            f'{config.read_text()}[mail]\nurl = "{server.url}"\n[beads]\ncommand = "{beads.program}"\n'
        )
        track(beads.root, beads={"epicId": beads.epic()})
        git = failing(sandbox.home / "bin", "git", "it is broken")
        sandbox.environment["PATH"] = f"{git.parent}:{sandbox.environment['PATH']}"
        flag = sandbox.home / "held"
        run_after(sandbox, QUICK + HELD.format(flag=str(flag))).start()
        wait_for(lambda: sandbox.call("status")["http"], what="the listener is open")
        visitor = http_clients.Visitor(sandbox, port)
        visitor.raw(b"no request at all\r\n\r\n").close()
        visitor.post(b"{")
        session = sandbox.session(beads.root)
        session.prompt("Round the tax per line")
        wait_for(lambda: "Round the tax" in sandbox.yaml(beads.root))
        sandbox.handoff("create", cwd=beads.root)
        flag.touch()
        wait_for(lambda: "library_warned" in sandbox.log.read_text(), 60, "a job is late")
        assert 0 == sandbox.stop(signal.SIGTERM)
    lines = [json.loads(line) for line in sandbox.log.read_text().splitlines()]
    events = {line["event"] for line in lines}

    assert {"started", "library_warned", "http_open", "stopped"} <= events
    assert [] == [line for line in lines if "traceback" in line]
    record_property("figure", f"{len(lines)} lines, {len(events)} kinds of event")
