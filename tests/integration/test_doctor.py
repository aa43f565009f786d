"""`handoff doctor`: each finding has a real cause here, and goes away by its own remedy."""

import json
import os
import re
import socket
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from conftest import BIN, REPOSITORY, DaemonSandbox, timestamp, wait_for

DAY = 86400
needs_root = pytest.mark.skipif(
    os.getuid() != 0,
    reason="gives a file to another user, which only root may do: run the tests as root",
)


def examined(sandbox: DaemonSandbox, cwd=None, **environment) -> dict:
    """Return the findings of `doctor --json`."""
    done = sandbox.handoff("doctor", "--json", cwd=cwd, env=environment)
    found = json.loads(done.stdout)
    assert found["exit"] == done.returncode
    return found


def about(sandbox: DaemonSandbox, subject: str, **environment) -> list[dict]:
    """Return the findings of one subject."""
    found = examined(sandbox, **environment)["findings"]
    return [finding for finding in found if finding["subject"] == subject]


def levels(findings: list[dict]) -> list[str]:
    return [finding["level"] for finding in findings]


def follow(sandbox: DaemonSandbox, finding: dict) -> subprocess.CompletedProcess:
    """Run the command of a remedy, in a shell that has `handoff` on its PATH."""
    command = re.split("[Rr]un: ", finding["remedy"])[1]
    environment = {**sandbox.environment, "PATH": f"{BIN}:{sandbox.environment['PATH']}"}
    done = subprocess.run(
        ["sh", "-c", command], env=environment, cwd=sandbox.home, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, (command, done.stderr)
    return done


def put_settings(sandbox: DaemonSandbox, directory: str = ".claude", **settings) -> Path:
    path = sandbox.home / directory / "settings.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(settings))
    return path


def hook(program) -> dict:
    """Return settings with a hook that starts a program of ours."""
    command = {"type": "command", "command": f'"{program}" hook 2>/dev/null; exit 0'}
    return {"SessionStart": [{"hooks": [command]}]}


def put_plugin(sandbox: DaemonSandbox, version: str, *, enabled: bool = True) -> None:
    """Write the files that Claude Code writes when it installs the plugin."""
    put_settings(sandbox, enabledPlugins={"handoffd@handoffd": enabled})
    path = sandbox.home / ".claude/plugins/installed_plugins.json"
    path.parent.mkdir(exist_ok=True)
    entry = {"scope": "user", "installPath": "/p", "version": version}
    path.write_text(json.dumps({"version": 2, "plugins": {"handoffd@handoffd": [entry]}}))


# The whole


@pytest.mark.quick
def test_it_reads_like_a_list(live):
    """Subjects stand once, texts are aligned, remedies below them; the last line sums up."""
    done = live.handoff("doctor")
    lines = done.stdout.splitlines()
    first = [line for line in lines if not line.startswith((" ", "All")) and line]

    assert 0 == done.returncode
    assert ["service", "socket", "versions"] == [line.split()[0] for line in first[:3]]
    assert 1 == len({line.index(line.split()[1]) for line in first})
    assert any(line.startswith("                   -> There is no systemd here") for line in lines)
    assert "All is well, with 2 notes." == lines[-1]


@pytest.mark.quick
def test_without_a_daemon_nothing_is_made(sandbox):
    """In an empty HOME `doctor` names the missing parts, exits with 3, and creates nothing."""
    done = sandbox.handoff("doctor")

    assert 3 == done.returncode
    assert "handoffd is not running.\n" in done.stdout
    assert "-> Start it with: handoff up\n" in done.stdout
    assert done.stdout.endswith("\n1 thing needs you.\n")
    assert [] == list(sandbox.home.iterdir())


# The socket


@pytest.mark.quick
def test_stale_socket(live):
    """A killed daemon's socket is named; `handoff up` replaces it, and the kill is noted."""
    live.kill()
    left = about(live, "socket")
    up = live.handoff("up")
    found = about(live, "socket")
    live.handoff("down")

    assert ["bad", "note"] == levels(left)
    assert f"nobody listens at {live.socket_path}" in left[1]["text"]
    assert 0 == up.returncode
    assert ["ok", "note"] == levels(found)
    assert "the one before it ended by itself" in found[1]["text"]


@needs_root
def test_socket_of_another_user(sandbox):
    """A socket in another user's runtime directory is reported as not ours."""
    path = Path(sandbox.socket_path)
    path.parent.mkdir()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        os.chown(path, 61000, 61000)
        found = about(sandbox, "socket")
        elsewhere = about(sandbox, "socket", XDG_RUNTIME_DIR="")

    assert f"{path} is the socket of user 61000, and is left alone" == found[1]["text"]
    assert "unset XDG_RUNTIME_DIR" in found[1]["remedy"]
    assert ["bad"] == levels(elsewhere)


def test_a_file_in_the_socket_s_place(sandbox):
    """A file in the socket's place is reported as no socket, and the remedy clears the way."""
    path = Path(sandbox.socket_path)
    path.parent.mkdir(mode=0o700)
    path.write_text("x")
    found = about(sandbox, "socket")
    follow(sandbox, {"remedy": found[1]["remedy"].replace("Move it away", "Run")})

    assert f"{path} is no socket" == found[1]["text"]
    assert ["bad"] == levels(about(sandbox, "socket"))


def test_daemon_that_listens_elsewhere(sandbox):
    """A running daemon on another socket is told from an absent one; `restart` repairs it."""
    sandbox.environment["HANDOFFD_SOCKET"] = f"{sandbox.runtime}/other"
    sandbox.start()
    del sandbox.environment["HANDOFFD_SOCKET"]
    found = examined(sandbox)
    silent = next(finding for finding in found["findings"] if finding["subject"] == "socket")
    follow(sandbox, silent)
    sandbox.process.wait(90)
    after = examined(sandbox)
    sandbox.handoff("down")

    assert 3 == found["exit"]
    said = f"handoffd runs (process {sandbox.process.pid}), but cannot be asked just now"
    assert said in silent["text"]
    assert 0 == after["exit"]


def test_hanging_daemon(live):
    """A hanging daemon is reported as hanging, with the command that ends it."""
    live.process.send_signal(19)
    found = examined(live)
    first, *more = [finding for finding in found["findings"] if finding["subject"] == "socket"]

    assert 1 == found["exit"]
    assert "does not answer" in first["text"]
    assert [] == more, "nobody says that it was killed"
    assert "handoff restart" in first["remedy"]


def test_what_the_daemon_cannot_look_at(live):
    """A question that the daemon cannot answer is reported with its reason; others are answered."""
    core = live.state / "core.db"
    core.unlink()
    core.mkdir()
    found = about(live, "socket")

    assert ["bad"] == levels(found)
    assert "core.db is no file" in found[0]["text"]


# Versions


def test_daemon_of_another_version(sandbox, tmp_path):
    """Both commands name both versions and exit with 6, until the daemon is started anew."""
    (tmp_path / "sitecustomize.py").write_text("import handoff\nhandoff.__version__ = '0.0.9'\n")
    sandbox.transcripts.mkdir(parents=True)
    sandbox.environment["PYTHONPATH"] = str(tmp_path)
    sandbox.start()
    del sandbox.environment["PYTHONPATH"]
    checked = sandbox.handoff("version", "--check")
    found = examined(sandbox)
    finding = next(item for item in found["findings"] if item["subject"] == "versions")
    follow(sandbox, finding)
    sandbox.process.wait(90)
    after = sandbox.handoff("version", "--check", "--json")
    sandbox.handoff("down")

    assert 6 == checked.returncode
    assert "daemon  0.0.9    Run: handoff restart\n" in checked.stdout
    assert 6 == found["exit"]
    assert finding["text"].startswith("the daemon is 0.0.9, this client is ")
    assert 0 == after.returncode
    assert {"client", "daemon", "exit"} == set(json.loads(after.stdout))


def test_plugin_of_another_version(live):
    """A plugin of another version is exit 6; one of the same is counted with the others."""
    version = live.call("status")["version"]
    put_plugin(live, "0.0.1")
    old = live.handoff("version", "--check")
    put_plugin(live, "99.0")
    new = about(live, "versions")
    put_plugin(live, version)
    same = live.handoff("version", "--check")

    assert 6 == old.returncode
    assert "claude plugin update handoffd@handoffd" in old.stdout
    assert "upgrade it" in new[0]["remedy"]
    assert (0, f"client  {version}\ndaemon  {version}\nplugin  {version}\n") == (
        same.returncode,
        same.stdout,
    )
    assert f"client, daemon and plugin: {version}" == about(live, "versions")[0]["text"]


def test_version_without_a_daemon(sandbox):
    """`version` needs no daemon; `version --check` says that there is none, and exits with 3."""
    plain = sandbox.handoff("version")
    checked = sandbox.handoff("version", "--check")

    assert (0, sandbox.handoff("--version").stdout) == (plain.returncode, plain.stdout)
    assert 3 == checked.returncode
    assert "daemon  handoffd is not running.    Start it with: handoff up\n" in checked.stdout


# Hooks


@pytest.mark.quick
def test_hooks(live):
    """Missing hooks, installed hooks, and hooks of a program that is gone are told apart."""
    none = about(live, "hooks")
    put_settings(live, hooks=hook(BIN / "handoff"))
    there = about(live, "hooks")
    put_settings(live, hooks=hook("/nowhere/handoff"))
    gone = examined(live)

    assert ("note", "Run: handoff setup") == (none[0]["level"], none[0]["remedy"])
    assert ["ok"] == levels(there)
    assert there[0]["text"].startswith("in settings.json; ")
    assert 1 == gone["exit"]
    assert "a hook starts /nowhere/handoff, which is not there" in {
        finding["text"] for finding in gone["findings"]
    }


def test_hooks_of_the_plugin(live):
    """The plugin's hooks need `handoff` on PATH or in ~/.local/bin; the remedy puts it there."""
    put_plugin(live, live.call("status")["version"])
    bare = {"PATH": "/usr/bin:/bin"}
    lost = about(live, "hooks", **bare)
    live.environment["PATH"] = bare["PATH"]
    follow(live, lost[0])
    found = about(live, "hooks", **bare)
    put_plugin(live, "0.1.0", enabled=False)

    assert "neither on PATH nor in ~/.local/bin" in lost[0]["text"]
    assert ["ok"] == levels(found)
    assert "Run: claude plugin enable handoffd@handoffd" == about(live, "hooks")[0]["remedy"]


def test_hooks_twice(live):
    """Hooks in the settings and in the plugin as well are a note: one of them is enough."""
    put_plugin(live, "0.1.0")
    path = live.home / ".claude/settings.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "hooks": hook(BIN / "handoff")}))
    found = about(live, "hooks", PATH=f"{BIN}:/usr/bin:/bin")

    assert ["note", "ok"] == levels(found)
    assert "claude plugin disable handoffd@handoffd" in found[0]["remedy"]


def test_hooks_switched_off(live):
    """`disableAllHooks` is found in the user's settings and in those of the current project."""
    project = live.project()
    put_settings(live, hooks=hook(BIN / "handoff"), disableAllHooks=True)
    own = about(live, "hooks")
    put_settings(live, hooks=hook(BIN / "handoff"))
    local = put_settings(live, "code/shop/.claude", disableAllHooks=True)
    found = examined(live, cwd=project)["findings"]

    assert [f"disableAllHooks in {live.home}/.claude/settings.json: no hook runs"] == [
        finding["text"] for finding in own
    ]
    assert f"disableAllHooks in {local}: no hook runs" in {item["text"] for item in found}
    assert ["ok"] == levels(about(live, "hooks"))


@pytest.mark.parametrize("text", ["{", "[]", "\x00", "[" * 100_000])
def test_broken_settings(live, text):
    """Settings that are no JSON object are reported; Claude Code would use nothing of them."""
    path = put_settings(live)
    path.write_text(text)
    found = about(live, "hooks")

    assert ["bad"] == levels(found)
    assert str(path) in found[0]["text"]


# Transcripts


def test_config_directory_that_is_not_followed(live, tmp_path):
    """The shell's CLAUDE_CONFIG_DIR is unknown to a service; the remedy makes it known."""
    other = tmp_path / "work"
    (other / "projects").mkdir(parents=True)
    before = about(live, "transcripts", CLAUDE_CONFIG_DIR=str(other))
    config = live.home / ".config/handoffd/config.toml"
    config.parent.mkdir(parents=True)
    section, setting = before[0]["remedy"].partition(": ")[2].split(" ", 1)
    config.write_text(f"{section}\n{setting.rpartition(' in ')[0]}\n")
    live.restart()
    wait_for(live.settled)

    assert ["bad", "ok"] == levels(before)
    assert str(config) in before[0]["remedy"]
    assert ["ok"] == levels(about(live, "transcripts", CLAUDE_CONFIG_DIR=str(other)))


def test_newest_transcript_is_dated(live):
    """If all transcripts are read, the age of the newest transcript on disk is reported."""
    session = live.session(live.project())
    session.prompt("Round tax per line")
    os.utime(session.path, (time.time() - 3 * 3600,) * 2)
    wait_for(lambda: live.call("status")["transcripts"] and live.settled())

    assert "1 transcripts, all read; the newest is 3 h old" == about(live, "transcripts")[0]["text"]


# Retention


def leave_old(sandbox: DaemonSandbox, project: Path, days: float, **envelope):
    """Write a session that edited a file so many days ago, and wrote nothing since."""
    session = sandbox.session(project, **envelope)
    at = timestamp(days * DAY)
    session.prompt(f"Work of {days:g} days ago", timestamp=at)
    session.edit(f"{project}/a.py", timestamp=at)
    os.utime(session.path, (time.time() - days * DAY,) * 2)
    return session


def started(sandbox: DaemonSandbox) -> DaemonSandbox:
    sandbox.start()
    wait_for(sandbox.settled)
    return sandbox


@pytest.mark.quick
def test_unsaved_session(sandbox):
    """A session that will be deleted without a handoff is named; the remedy writes a dated one."""
    project = sandbox.project()
    late = leave_old(sandbox, project, 27)
    leave_old(sandbox, project, 10)
    started(sandbox)
    found = about(sandbox, "retention")
    follow(sandbox, found[0])
    handoffs = sandbox.call("list", cwd=str(project))["handoffs"]

    assert ["note"] == levels(found)
    assert late.id[:8] in found[0]["text"]
    assert "Work of 27 days ago" in found[0]["text"]
    assert "in 3 days" in found[0]["text"]
    assert [late.id] == [handoff["session_id"] for handoff in handoffs]
    assert 26 * DAY < handoffs[0]["age_seconds"] < 28 * DAY
    assert ["ok"] == levels(about(sandbox, "retention"))


def test_what_is_not_unsaved(sandbox):
    """A session without work, of a program, with another's handoff or excluded is not reported."""
    project, excluded = sandbox.project(), sandbox.project("secret")
    config = sandbox.home / ".config/handoffd/config.toml"
    config.parent.mkdir(parents=True)
    config.write_text('[projects]\nexclude = ["~/code/secret"]\n')
    leave_old(sandbox, excluded, 28)
    leave_old(sandbox, project, 28, entrypoint="sdk-cli")
    asked = sandbox.session(project)
    asked.prompt("What is this?", timestamp=timestamp(28 * DAY))
    os.utime(asked.path, (time.time() - 28 * DAY,) * 2)
    theirs = leave_old(sandbox, project, 29)
    started(sandbox)
    before = sandbox.call("doctor")["unsaved"]
    sandbox.handoff("close", "--session", theirs.id, "--project", str(project))
    written = next((sandbox.home / ".claude/handoffs").rglob("*.md"))
    # As if another program had written it.
    with sqlite3.connect(sandbox.state / "core.db") as database:
        database.execute("DELETE FROM contracts")

    assert [theirs.id] == [item["session_id"] for item in before]
    assert theirs.id in written.read_text()
    assert [] == sandbox.call("doctor")["unsaved"]


def test_paused_and_unwanted_handoffs_are_not_missed(sandbox):
    """With a pause, or with `[contract] write = "none"`, a missing handoff is not reported."""
    project = sandbox.project()
    leave_old(sandbox, project, 28)
    started(sandbox)
    before = len(sandbox.call("doctor")["unsaved"])
    sandbox.call("pause", cwd="/", project=str(project))
    paused = sandbox.call("doctor")["unsaved"]
    sandbox.call("unpause", cwd="/", project=str(project))
    config = sandbox.home / ".config/handoffd/config.toml"
    config.parent.mkdir(parents=True)
    config.write_text('[contract]\nwrite = "none"\n')
    sandbox.restart()
    wait_for(sandbox.settled)

    assert 1 == before
    assert [] == paused
    assert [] == sandbox.call("doctor")["unsaved"]


def test_many_unsaved_sessions(sandbox):
    """Of many such sessions the soonest are named; a setting that keeps the rest is respected."""
    project = sandbox.project()
    for number in range(8):
        leave_old(sandbox, project, 26 + number / 4)
    started(sandbox)
    found = about(sandbox, "retention")
    put_settings(sandbox, cleanupPeriodDays=365)
    later = about(sandbox, "retention")

    assert ["note"] * 6 == levels(found)
    assert found[-1]["text"].startswith("3 more sessions")
    assert (
        f'"cleanupPeriodDays": 365 in {sandbox.home}/.claude/settings.json' in found[-1]["remedy"]
    )
    assert ["ok"] == levels(later)
    assert later[0]["text"].endswith("after 365 days")


@pytest.mark.parametrize("days", [0, -1, "30", None, True])
def test_no_number_of_days(live, days):
    """A cleanupPeriodDays that Claude Code refuses is reported: that whole file is not in force."""
    put_settings(live, cleanupPeriodDays=days)
    found = about(live, "retention")

    assert ["bad", "ok"] == levels(found)
    assert "cleanupPeriodDays" in found[0]["text"]
    assert 30.0 == live.call("doctor")["roots"][0]["keep_days"]


def test_many_sub_agents(sandbox):
    """Two sessions that were read are fresh, regardless of the sub-agents that wrote after them."""
    project = sandbox.project()
    for number in range(2):
        session = sandbox.session(project)
        session.prompt(f"Round the tax, part {number}")
        os.utime(session.path, (time.time() - 3600,) * 2)
    agents = session.path.with_suffix("") / "subagents"
    agents.mkdir(parents=True)
    for number in range(25):
        line = session.line("user", message={"role": "user", "content": "Help"}, isSidechain=True)
        (agents / f"agent-a{number}.jsonl").write_bytes(line)
    started(sandbox)

    assert 27 == sandbox.call("status")["transcripts"]
    assert ["ok"] == levels(about(sandbox, "transcripts"))
    assert 2 == len(sandbox.call("doctor")["newest"])


def test_settings_that_cannot_be_read(live):
    """A pipe, endless nesting, a huge number and a link to a device block no request."""
    path = live.home / ".claude/settings.json"

    def days() -> float:
        return live.call("doctor")["roots"][0]["keep_days"]

    os.mkfifo(path)
    assert 30.0 == days()
    path.unlink()
    path.write_text('{"a":' * 100_000)
    assert 30.0 == days()
    path.write_text('{"cleanupPeriodDays": 1' + "0" * 400 + "}")
    assert 36500.0 == days()
    path.unlink()
    path.symlink_to("/dev/zero")
    assert 30.0 == days()
    path.unlink()
    linked = live.home / "dotfiles.json"
    linked.write_text('{"cleanupPeriodDays": 90}')
    path.symlink_to(linked)
    assert 90.0 == days()


def test_doctor_itself_is_not_held_up(live):
    """A pipe in the place of the settings is reported as no file."""
    path = live.home / ".claude/settings.json"
    os.mkfifo(path)

    assert f"{path} cannot be read (it is no file)" in about(live, "hooks")[0]["text"]


# Stored data, and sent data


def test_open_state_directory(live):
    """A state directory that others may read is reported, and closed by the remedy."""
    live.state.chmod(0o755)
    before = about(live, "disk")
    follow(live, before[0])

    assert ["bad", "ok"] == levels(before)
    assert "(mode 0755)" in before[0]["text"]
    assert ["ok"] == levels(about(live, "disk"))


@needs_root
def test_state_directory_of_another_user(sandbox):
    """A state directory of another user is reported."""
    sandbox.state.mkdir(parents=True)
    os.chown(sandbox.state, 61000, 61000)

    assert ["bad"] == levels(about(sandbox, "disk"))


def test_letters(live):
    """A waiting message is a note, an abandoned one is bad, each with its problem.

    `triggers --drop` deletes the abandoned one.
    """
    project = live.project()
    live.session(project).prompt("x")
    wait_for(lambda: live.call("sessions")["sessions"])
    row = "INSERT INTO outbox (kind, project_id, root, key, target, body, state, queued_at, problem, not_before)"
    values = "VALUES ('mail', 'p', ?, ?, 'post@example.invalid', '{}', ?, '', 'no such token', 9e9)"
    with sqlite3.connect(live.state / "core.db") as database:
        database.execute(f"{row} {values}", (str(project), "1", "waiting"))
        database.execute(f"{row} {values}", (str(project), "2", "dead"))
    found = about(live, "outbox")
    warned = about(live, "warnings")
    live.handoff("triggers", "--drop")

    assert ["bad", "note"] == levels(found)
    assert "mail to post@example.invalid was given up: no such token" == found[0]["text"]
    assert "1 to be sent" == found[1]["text"]
    assert [] == warned
    assert ["note"] == levels(about(live, "outbox"))


@pytest.mark.skipif(sys.platform != "linux", reason="is about inotify, which only Linux has")
def test_own_watches_are_counted(live):
    """The daemon's own watches are counted beside the kernel's limits."""
    wait_for(lambda: live.call("status")["watched"])
    watched = live.call("status")["watched"]
    text = about(live, "watches")[0]["text"]

    assert text.endswith(f"; {watched} of the watches are ours")


@pytest.mark.quick
def test_a_warning_is_explained_without_the_checkout(sandbox):
    """The wheel prints the document's section for every word in a warning's brackets."""
    _, *sections = (REPOSITORY / "docs/troubleshooting.md").read_text().split("\n## ")
    told = dict(section.split("\n", 1) for section in sections)

    for heading, text in told.items():
        assert text.strip() == sandbox.handoff("doctor", "--explain", heading).stdout.strip()
    unknown = sandbox.handoff("doctor", "--explain", "core-damage")
    assert (2, "") == (unknown.returncode, unknown.stdout)
    assert "core-damaged" in unknown.stderr
