"""The client as a person and a hook use it."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import damaged_stores
import handoff
from conftest import BIN, REPOSITORY, allowed, contents_below, wait_for
from handoff.cli import COMMANDS


def begin(sandbox):
    project = sandbox.project()
    session = sandbox.session(project)
    session.prompt("Add a discount code field")
    session.edit(f"{project}/a.py")
    wait_for(lambda: "a.py" in sandbox.yaml(project))
    return project, session


@pytest.mark.quick
@pytest.mark.parametrize("command", ["status", "sessions", "watch", "pause", "unpause", "down"])
def test_not_running(sandbox, command):
    """A command that needs the daemon says in one line that it is not running, and exits with 3."""
    done = sandbox.handoff(command)

    assert 3 == done.returncode
    assert done.stderr.startswith(("handoffd is not running.", "handoff: handoffd is not running."))
    assert "handoff up" in done.stderr
    assert "" == done.stdout


@pytest.mark.parametrize("command", ["status", "sessions", "watch", "show", "list"])
def test_running_without_its_socket(live, command):
    """A daemon whose socket was deleted is not reported as down: it can be asked again soon."""
    os.unlink(live.socket_path)
    done = live.handoff(command, cwd=live.project())

    said = f"handoffd runs (process {live.process.pid}), but cannot be asked just now: its socket "
    assert said in done.stderr
    assert "within 30 s" in done.stderr
    assert "not running" not in done.stderr
    if command not in ("show", "list"):
        assert (3, "") == (done.returncode, done.stdout)
        assert "if it stays so, run: handoff restart" in done.stderr


@pytest.mark.quick
def test_open_and_list_without_a_daemon(sandbox):
    """`open` and `list` read the files alone and say so, also beside a damaged core.db."""
    project = sandbox.project()
    sandbox.handoff("close", "--done", "the parser", cwd=project)
    for spoil in (lambda _path: None, damaged_stores.garbage):
        spoil(sandbox.state / "core.db")
        for command in ("open", "list"):
            done = sandbox.handoff(command, cwd=project)
            assert 0 == done.returncode
            assert "the parser" in done.stdout
            assert "handoffd is not running. Read from the files alone.\n" == done.stderr


@pytest.mark.quick
def test_show_save_inject_without_a_daemon(sandbox):
    """`save`, `show` and `inject` work from disk, and say that no daemon runs."""
    project = sandbox.project()
    (project / "new.txt").write_text("x")
    saved = sandbox.handoff("save", "-m", "half way through", "--tag", "a", "-t", "b", cwd=project)
    shown = sandbox.handoff("show", cwd=project)
    injected = sandbox.handoff("inject", cwd=project / ".flow-guardian")

    assert (0, 0, 0) == (saved.returncode, shown.returncode, injected.returncode)
    assert "not running" in saved.stderr
    assert "half way through" in shown.stdout
    assert "new.txt" in shown.stdout
    assert "not running" in shown.stderr
    assert "**Goal:** half way through" in injected.stdout
    assert "tags:\n- a\n- b\n" in sandbox.yaml(project)


@pytest.mark.quick
def test_save_merges(live):
    """`save` changes the given fields and erases no other."""
    project, _ = begin(live)
    live.handoff("save", "--hypothesis", "an off-by-one error", "--status", "blocked", cwd=project)
    live.handoff("save", "-m", "looking at the clock", "--tag", "one", cwd=project)
    done = live.handoff(
        "save", "--outcome", "it was the clock", "--tag", "two", "--json", cwd=project
    )
    document = json.loads(done.stdout)["document"]

    assert "Add a discount code field" == document["goal"]
    assert "looking at the clock" == document["now"]
    assert "an off-by-one error" == document["hypothesis"]
    assert "it was the clock" == document["outcome"]
    assert "blocked" == document["status"]
    assert ["one", "two"] == document["tags"]


@pytest.mark.parametrize("running", [True, False])
@pytest.mark.seed("001", '"now": user_message or "Working on project"')
def test_save_in_a_new_project(sandbox, running):
    """In a new project -m gives goal and now; without -m `now` has its default."""
    if running:
        sandbox.start()
    project, other = sandbox.project("one"), sandbox.project("two")
    sandbox.handoff("save", "-m", "starting with the model", cwd=project)
    sandbox.handoff("save", cwd=other)

    assert "goal: starting with the model\n" in sandbox.yaml(project)
    assert "now: starting with the model\n" in sandbox.yaml(project)
    assert "goal: (not stated yet)\n" in sandbox.yaml(other)
    assert "now: Working on project\n" in sandbox.yaml(other)


@pytest.mark.parametrize("running", [True, False])
def test_save_refuses_nonsense(sandbox, running):
    """An empty text and an unknown status are refused by name; nothing is written."""
    if running:
        sandbox.start()
    project = sandbox.project()
    empty = sandbox.handoff("save", "--goal", "  ", cwd=project)
    status = sandbox.handoff("save", "--status", "done", cwd=project)

    assert 1 == empty.returncode
    assert "goal" in empty.stderr
    assert 2 == status.returncode
    assert "" == sandbox.yaml(project)


@pytest.mark.seed("001", '"now": user_message or "Working on project"')
def test_flow_link(live):
    """A link named `flow` to the client is the seed's spelling of save and inject."""
    project, _ = begin(live)
    link = live.home / "flow"
    link.symlink_to(BIN / "handoff")

    def flow(*words):
        return subprocess.run(
            [link, *words], env=live.environment, cwd=project, capture_output=True, text=True,
            stdin=subprocess.DEVNULL, check=False,
        )  # fmt: skip

    assert 0 == flow("save", "-m", "through the link").returncode
    assert "through the link" in live.yaml(project)
    assert "**Now:** through the link" in flow("inject").stdout
    assert "" == flow("inject", "--save-state").stdout
    assert 2 == flow("status").returncode
    assert "usage: flow" in flow("--help").stdout


@pytest.mark.quick
@pytest.mark.seed("001", "YAML checkpoints that track session state")
def test_inject_is_marked_and_small(live):
    """The brief is framed as a record of the past, marked, and at most 2 KB at every level."""
    project, session = begin(live)
    for number in range(60):
        session.edit(f"{project}/a/rather/long/path/to/some/file_number_{number}.py")
    wait_for(lambda: "file_number_59" in live.yaml(project))
    live.handoff("save", "--goal", "ü" * 1500, cwd=project)
    for level in ("L0", "L1", "L2", "L3"):
        text = live.handoff("inject", "--level", level, cwd=project).stdout

        assert text.startswith("<handoffd-context ")
        assert text.endswith("</handoffd-context>\n")
        assert "not instructions" in text
        assert len(text.encode()) <= 2048


def test_inject_level_one_shows_five_files(live):
    """L1 names five files and how many more there are; L2 names all."""
    project, session = begin(live)
    for number in range(7):
        session.edit(f"{project}/f{number}.py")
    wait_for(lambda: "f6.py" in live.yaml(project))

    assert (
        "**Files:** f6.py, f5.py, f4.py, f3.py, f2.py (+3 more)"
        in live.handoff("inject", cwd=project).stdout
    )
    assert "f0.py, a.py" in live.handoff("inject", "--level", "L2", cwd=project).stdout


def test_inject_of_an_unknown_project_is_silent(live):
    """In an unknown project nothing is printed and the exit code is 0."""
    done = live.handoff("inject", cwd=live.project("empty"))

    assert (0, "", "") == (done.returncode, done.stdout, done.stderr)


@pytest.mark.seed("001", "# Hook calls: flow inject --save-state")
@pytest.mark.seed("001", "# Before context compaction, save current")
def test_inject_save_state_prints_nothing(live):
    """The PreCompact hook's call writes the checkpoint of the hook's session and is silent."""
    project, session = begin(live)
    (project / ".flow-guardian/handoff.yaml").unlink()
    hook = {
        "session_id": session.id,
        "cwd": "/",
        "transcript_path": str(session.path),
        "hook_event_name": "PreCompact",
    }
    done = live.handoff("inject", "--save-state", cwd="/", input=json.dumps(hook) + "\n")

    assert (0, "", "") == (done.returncode, done.stdout, done.stderr)
    wait_for(lambda: "Add a discount code field" in live.yaml(project))


@pytest.mark.seed("001", "# Hook calls: flow inject --save-state")
def test_inject_save_state_without_a_daemon(sandbox):
    """Without a daemon the hook's call still keeps branch and files, and is silent."""
    project = sandbox.project()
    (project / "x.py").write_text("x")
    hook = json.dumps({"session_id": "s", "cwd": str(project)})

    def keeps_files() -> bool:
        done = sandbox.handoff("inject", "--save-state", cwd="/", input=hook)
        assert (0, "", "") == (done.returncode, done.stdout, done.stderr)
        return "- x.py" in sandbox.yaml(project)

    # On a busy machine git may take longer than it is waited for.
    wait_for(keeps_files)
    assert "branch: main" in sandbox.yaml(project)


@pytest.mark.quick
@pytest.mark.seed("001", "# Hook calls: flow inject --save-state")
def test_inject_save_state_with_a_daemon_that_knows_nothing_yet(live):
    """The hook's call keeps branch and files of a project that the daemon has never seen."""
    project = live.project()
    (project / "x.py").write_text("x")
    hook = json.dumps({"session_id": "s", "cwd": str(project)})
    done = live.handoff("inject", "--save-state", cwd="/", input=hook)

    assert (0, "", "") == (done.returncode, done.stdout, done.stderr)
    wait_for(lambda: "- x.py" in live.yaml(project))
    assert "branch: main" in live.yaml(project)


def test_inject_save_state_keeps_what_the_file_says(live):
    """Nothing of a file is lost to a daemon that knows no session of the project."""
    project = live.project()
    (project / ".flow-guardian").mkdir()
    path = project / ".flow-guardian/handoff.yaml"
    path.write_text("goal: Ship it\nstatus: blocked\nnow: Waiting\nmine: 1\n")
    (project / "x.py").write_text("x")
    hook = json.dumps({"cwd": str(project)})
    live.handoff("inject", "--save-state", cwd="/", input=hook)

    wait_for(lambda: "- x.py" in path.read_text())
    for line in ("goal: Ship it", "status: blocked", "now: Waiting", "mine: 1"):
        assert line in path.read_text().splitlines()


@pytest.mark.parametrize("how", ["unmarked", "none"])
def test_inject_save_state_writes_only_where_it_may(live, how):
    """Neither an unmarked directory nor one where writing is switched off gets a file."""
    project = live.project(git=how != "unmarked")
    if how == "none":
        (live.home / ".config/handoffd").mkdir(parents=True, exist_ok=True)
        (live.home / ".config/handoffd/config.toml").write_text('[checkpoint]\nwrite = "none"\n')
        live.restart()
    other = live.project("other")
    for directory in (project, other):
        hook = json.dumps({"cwd": str(directory)})
        live.handoff("inject", "--save-state", cwd="/", input=hook)
    if how == "unmarked":
        wait_for(lambda: live.yaml(other))
    else:
        wait_for(live.settled)

    assert not (project / ".flow-guardian").exists()


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (["-m", "One more thing"], "in_progress"),
        (["--now", "One more thing"], "in_progress"),
        (["-m", "It is done", "--status", "completed"], "completed"),
        (["--outcome", "success"], "completed"),
    ],
)
@pytest.mark.seed("001", '"status": "in_progress",')
def test_save_takes_completed_work_up_again(world, words, status):
    """A message on completed work makes it in progress, unless the status is given as well."""
    project = world.project()
    world.handoff("save", "-m", "Done", "--goal", "g", "--status", "completed", cwd=project)
    assert "status: completed" in world.yaml(project)
    assert 0 == world.handoff("save", *words, cwd=project).returncode

    assert f"status: {status}" in world.yaml(project)


@pytest.mark.quick
def test_save_keeps_blocked_work_blocked(world):
    """A message on blocked work says what is going on; it is blocked until a person says more."""
    project = world.project()
    world.handoff("save", "-m", "Waiting", "--status", "blocked", cwd=project)
    world.handoff("save", "-m", "Still waiting", cwd=project)

    assert "status: blocked" in world.yaml(project)


@pytest.mark.parametrize("session_id", ["", "abc123"])
def test_save_quiet_prints_the_session_alone(world, session_id):
    """With --quiet only the session's id is printed, if there is one, also without a daemon."""
    project = world.project()
    if session_id:
        given = {"goal": "g", "status": "in_progress", "now": "n", "session_id": session_id}
        handoff.save_handoff(given, project)
    done = world.handoff("save", "--quiet", "-m", "Half way", cwd=project)

    assert (0, f"{session_id}\n" if session_id else "", "") == (
        done.returncode, done.stdout, done.stderr,
    )  # fmt: skip
    assert "now: Half way" in world.yaml(project)


@pytest.mark.quick
def test_hook_finds_the_project(live):
    """A hook's project is found by session id, then CLAUDE_PROJECT_DIR, then its cwd."""
    project, session = begin(live)

    def inject(hook: dict, **environment):
        return live.handoff("inject", cwd="/", input=json.dumps(hook), env=environment).stdout

    # On a busy machine a hook may give up after its 100 ms and know less.
    for hook, environment in (
        ({"session_id": session.id}, {}),
        ({}, {"CLAUDE_CODE_SESSION_ID": session.id}),
        ({"cwd": "/"}, {"CLAUDE_PROJECT_DIR": str(project)}),
        ({"cwd": str(project)}, {}),
    ):
        wait_for(lambda h=hook, e=environment: str(project) in inject(h, **e), what=str(hook))
    assert "" == inject({"cwd": "/"})


def test_hook_teaches_a_config_directory(live):
    """A transcript path in a hook's JSON makes the daemon follow that config directory, for good."""
    project = live.project()
    session = live.session(project)
    session.path = live.home / "cfg/projects/-x" / session.path.name
    session.path.parent.mkdir(parents=True)
    session.prompt("From a directory only hooks know")
    live.handoff(
        "inject", input=json.dumps({"transcript_path": str(session.path), "cwd": str(project)})
    )

    wait_for(lambda: live.document(project)["goal"] == "From a directory only hooks know")
    live.restart()
    session.say("Remembered.")
    wait_for(lambda: "Remembered." in live.document(project)["now"])


def test_hook_never_waits_for_a_stopped_daemon(live):
    """With a daemon that hangs, a hook gives up after 100 ms and answers from disk."""
    project, _ = begin(live)
    live.handoff("inject", cwd=project)
    live.process.send_signal(19)
    started = time.monotonic()
    done = live.handoff("inject", cwd=project)
    took = time.monotonic() - started

    assert 0 == done.returncode
    assert "Add a discount code field" in done.stdout
    assert took < allowed(1.5)


@pytest.mark.parametrize("blocked", [(), (signal.SIGALRM,)])
def test_hook_does_not_hang_on_an_open_pipe(live, blocked):
    """A pipe on stdin that stays open and silent does not block the client in any signal mask."""
    project, _ = begin(live)
    reading, writing = os.pipe()
    signal.pthread_sigmask(signal.SIG_BLOCK, blocked)
    try:
        done = live.handoff("inject", cwd=project, stdin=reading)
        assert "Add a discount code field" in done.stdout
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, blocked)
        os.close(reading)
        os.close(writing)


def test_brief_on_disk_is_not_used_when_stale(live):
    """With the daemon down the brief on disk is used only while the checkpoint is unchanged."""
    project, _ = begin(live)
    wait_for(lambda: list((live.state / "briefs").glob("*")))
    live.stop()
    fresh = live.handoff("inject", cwd=project).stdout
    path = project / ".flow-guardian/handoff.yaml"
    path.write_text(path.read_text().replace("Add a discount code field", "Changed in the dark"))
    changed = live.handoff("inject", cwd=project).stdout

    assert "Add a discount code field" in fresh
    assert "Changed in the dark" in changed


@pytest.mark.quick
def test_hot_path_imports_next_to_nothing(live):
    """`inject` loads neither os, re, json, typing nor any other package than our own."""
    project, _ = begin(live)
    site = Path(
        subprocess.check_output(
            [
                sys.executable,
                "-c",
                "import handoff, os; print(os.path.dirname(os.path.dirname(handoff.__file__)))",
            ],
            text=True,
        ).strip()
    )
    code = (
        "import sys; sys.path.append(sys.argv[1]); import posix; from handoff import fast\n"
        "def leave(code, out='', err=''):\n print(out[:17], sorted(m for m in sys.modules if m in "
        "('os', 're', 'json', 'typing', 'socket', 'pathlib', 'argparse', 'site', 'enum', 'asyncio')))\n raise SystemExit\n"
        "fast._exit_now = leave\nfast.main('handoff', ['inject'])"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, str(site)], env=live.environment, cwd=project,
        capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False,
    )  # fmt: skip

    assert "<handoffd-context []" == done.stdout.strip(), done.stderr


@pytest.mark.quick
def test_up_and_down(sandbox):
    """`up` starts one daemon however many ask at once; `down` ends it; again is harmless."""
    asked = [
        subprocess.Popen(
            [BIN / "handoff", "up"], env=sandbox.environment, stdout=subprocess.PIPE, text=True
        )
        for _ in range(4)
    ]
    answers = {process.communicate(timeout=90)[0].split("process ")[1] for process in asked}
    again = sandbox.handoff("up")
    restarted = sandbox.handoff("restart")
    pid = sandbox.call("status")["pid"]
    logs = sandbox.handoff("logs")
    ended = sandbox.handoff("down")

    assert 1 == len(answers)
    assert "is running" in again.stdout
    assert f"process {pid}" in restarted.stdout
    assert answers.isdisjoint({f"{pid}).\n"})
    assert '"event": "started"' in logs.stdout
    assert (0, 0) == (logs.returncode, ended.returncode)
    wait_for(lambda: not os.path.exists(f"/proc/{pid}"))
    assert 3 == sandbox.handoff("status").returncode


def test_up_says_why_it_failed(sandbox):
    """When the daemon cannot start, `up` fails and shows the reason."""
    config = sandbox.home / ".config/handoffd/config.toml"
    config.parent.mkdir(parents=True)
    config.write_text("nonsense = 1\n")
    done = sandbox.handoff("up")

    assert 1 == done.returncode
    assert "there is no setting `nonsense`" in done.stderr


@pytest.mark.quick
def test_watch_streams_changes(live):
    """`watch` prints each change of a project as it happens."""
    project = live.project()
    process = subprocess.Popen(
        [BIN / "handoff", "watch", "--json", str(project)], env=live.environment,
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    lines: list[str] = []
    reader = threading.Thread(target=lambda: lines.extend(process.stdout), daemon=True)
    reader.start()
    wait_for(lambda: "change" in str(live.call("status")) or True)
    session = live.session(project)
    deadline = time.monotonic() + 90
    while not lines and time.monotonic() < deadline:
        session.prompt("Tell the watchers about this")
        time.sleep(0.2)
    process.terminate()
    process.wait(90)
    change = json.loads(lines[0])

    assert str(project) == change["project"]
    assert "Tell the watchers about this" == change["document"]["now"]


@pytest.mark.quick
def test_doctor(live):
    """`doctor` is content with a healthy daemon, and changes nothing."""
    begin(live)
    wait_for(live.settled)
    wait_for(lambda: list((live.state / "briefs").glob("[!.]*")))
    seen = [{}]

    def look():
        seen.append(
            {
                path: (path.stat().st_mtime_ns, text)
                for path, text in contents_below(live.home).items()
                if path.suffix != ".db-shm"  # SQLite notes there where a reader began
            }
        )
        return seen[-1]

    wait_for(lambda: time.sleep(0.5) or seen[-1] == look())  # git was asked beside all else
    before = look()
    done = live.handoff("doctor")
    after = look()

    assert 0 == done.returncode, done.stdout
    assert "all read" in done.stdout
    assert before == after


@pytest.mark.quick
def test_doctor_without_a_daemon(sandbox):
    """`doctor` says that no daemon runs, names the remedy, and exits with 3."""
    done = sandbox.handoff("doctor")

    assert 3 == done.returncode
    assert "handoff up" in done.stdout


def test_doctor_not_fresh(sandbox):
    """`doctor` exits with 5 while something is unread, and with 0 when all is read."""
    session = sandbox.session(sandbox.project())
    line = session.line("assistant", message={"content": [{"type": "text", "text": "x" * 1000}]})
    session.path.write_bytes(line * 200_000)
    os.utime(session.path, (time.time() - 60,) * 2)
    sandbox.start()
    early = sandbox.handoff("doctor")
    progress = sandbox.handoff("status").stdout
    wait_for(sandbox.settled, 60)

    assert 5 == early.returncode, early.stdout
    assert "not fresh" in early.stdout
    assert "1 to read" in progress
    assert 0 == sandbox.handoff("doctor").returncode


def test_doctor_names_a_shadowed_flow(live):
    """Two programs named `flow` on PATH are reported, with the one that wins."""
    theirs, ours = live.home / "theirs", live.home / "ours"
    for directory in (theirs, ours):
        directory.mkdir()
    (theirs / "flow").write_text("#!/bin/sh\n")
    (theirs / "flow").chmod(0o755)
    (ours / "flow").symlink_to(BIN / "handoff")
    rest = live.environment["PATH"]
    first = live.handoff("doctor", env={"PATH": f"{ours}:{theirs}:{rest}"}).stdout
    second = live.handoff("doctor", env={"PATH": f"{theirs}:{ours}:{rest}"}).stdout

    assert f"our `flow` ({ours}/flow) shadows another program: {theirs}/flow" in first
    assert f"another program named `flow` ({theirs}/flow) shadows ours" in second


def test_doctor_says_how_to_get_flow(sandbox):
    """Where no program is called `flow`, the command that makes the link is named."""
    shown = sandbox.handoff("doctor", env={"PATH": "/usr/bin:/bin"}).stdout

    assert "there is no `flow`; to make the link: handoff setup --with flow" in shown


@pytest.mark.parametrize("wanted", [True, False])
def test_doctor_and_close_know_where_other_readers_look(sandbox, wanted):
    """A project with .bon/handoffs gets links there if that is configured; else doctor offers it."""
    project = sandbox.project()
    place = project / ".bon/handoffs"
    place.mkdir(parents=True)
    if wanted:
        (sandbox.home / ".config/handoffd").mkdir(parents=True, exist_ok=True)
        (sandbox.home / ".config/handoffd/config.toml").write_text(
            '[contract]\nalso = [".bon/handoffs"]\n'
        )
    done = sandbox.handoff("close", "--done", "Rounded tax", cwd=project)
    assert 0 == done.returncode, done.stderr

    assert wanted == any("Rounded tax" in path.read_text() for path in place.iterdir())
    assert wanted != (
        "this project has .bon/handoffs" in sandbox.handoff("doctor", cwd=project).stdout
    )


@pytest.mark.quick
def test_tables_fit_eighty_columns(live):
    """No line of status, show or sessions is wider than 80 columns, and none has colour in a pipe."""
    project, session = begin(live)
    session.prompt("Ein sehr langer Satz über die Größe " * 8)
    session.say("他说了很多话" * 30)
    wait_for(lambda: "他说了" in live.yaml(project))
    for words in (["status"], ["show"], ["sessions"]):
        shown = live.handoff(*words, cwd=project).stdout
        from unicodedata import east_asian_width

        widths = [
            sum(2 if east_asian_width(c) in "WF" else 1 for c in line)
            for line in shown.splitlines()
        ]
        assert max(widths) <= 80, shown
        assert "\x1b" not in shown


def test_help_shows_an_example(sandbox):
    """Every command's --help has an example; the overview lists the exit codes."""
    overview = sandbox.handoff("--help").stdout
    commands = re.findall(r"(?m)^    ([a-z-]+)(?:  |$)", overview)
    assert list(COMMANDS) == commands
    for command in commands:
        assert "Example: handoff" in sandbox.handoff(command, "--help").stdout, command

    assert "3 daemon not running" in overview
    assert 2 == sandbox.handoff().returncode
    assert 2 == sandbox.handoff("nonsense").returncode


@pytest.mark.quick
def test_json_output_is_json(live):
    """Every --json output parses, and has the same facts as the text."""
    project, _ = begin(live)
    for words in (["status"], ["show"], ["sessions"], ["doctor"], ["pause"], ["unpause"]):
        done = live.handoff(*words, "--json", cwd=project)
        assert json.loads(done.stdout), words
    assert (
        "Add a discount code field"
        == json.loads(live.handoff("show", "--json", cwd=project).stdout)["document"]["goal"]
    )


@pytest.mark.quick
def test_ten_line_script(live):
    """A script without any library of ours can ask the daemon."""
    project, _ = begin(live)
    script = (REPOSITORY / "docs/protocol.md").read_text().split("```python\n")[1].split("```")[0]
    done = subprocess.run(
        [sys.executable, "-I", "-c", script, live.socket_path, str(project)],
        capture_output=True, text=True, timeout=90, check=False,
    )  # fmt: skip

    assert len(script.strip().splitlines()) <= 10
    assert "Add a discount code field" in done.stdout, done.stderr


@pytest.mark.quick
def test_python_client(live):
    """`from handoff import Client` calls a method, and raises errors that name the remedy."""
    project, _ = begin(live)
    code = (
        "import sys; from handoff import Client\n"
        "print(Client().call('show', cwd=sys.argv[1])['data']['document']['goal'])\n"
        "try: Client().call('nothing')\n"
        "except Exception as problem: print(type(problem).__name__, problem)\n"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", code, str(project)], env=live.environment, capture_output=True,
        text=True, check=False,
    )  # fmt: skip

    assert "Add a discount code field\nUnknownMethodError There is no method" in done.stdout, (
        done.stderr
    )


def test_client_of_an_unreachable_socket(sandbox):
    """A socket without a server is `not running`, not a traceback."""
    os.makedirs(os.path.dirname(sandbox.socket_path))
    dead = socket.socket(socket.AF_UNIX)
    dead.bind(sandbox.socket_path)
    dead.close()

    assert 3 == sandbox.handoff("status").returncode


def test_asking_leaves_no_trace(live):
    """The answers about an unknown directory are empty, and nothing about it is stored."""
    begin(live)
    place = live.project("unknown")
    shown = live.show(place)
    live.handoff("inject", cwd=place)
    listed = live.call("sessions", cwd=str(place), project=".")
    live.stop()

    assert ("(not stated yet)", [], []) == (
        shown["document"]["goal"], shown["lanes"], listed["sessions"],
    )  # fmt: skip

    assert [] == [p for p, text in contents_below(live.state).items() if b"code/unknown" in text]
    assert [".git"] == os.listdir(place)


def test_show_of_a_file_nobody_told_us_of(live):
    """A handoff.yaml in a project without any session is shown as its author wrote it."""
    project = live.project()
    (project / ".flow-guardian").mkdir()
    path = project / ".flow-guardian/handoff.yaml"
    path.write_text(
        "goal: From a colleague\nstatus: blocked\nnow: waiting\nfiles: [a.py]\n"
        "branch: theirs\nsession_id: abc\ntimestamp: 2026-01-17T10:30:00Z\n"
    )
    before = path.read_bytes()

    assert "From a colleague" in live.handoff("show", cwd=project).stdout
    assert "**Status:** blocked" in live.handoff("inject", cwd=project).stdout
    live.run_due()
    assert before == path.read_bytes()


def test_colour_only_on_a_terminal(live):
    """On a terminal the output has colour, unless NO_COLOR is set; the width is the terminal's."""
    import pty

    project, _ = begin(live)

    def on_terminal(**environment) -> str:
        master, slave = pty.openpty()
        process = subprocess.Popen(
            [BIN / "handoff", "show"], cwd=project, stdin=slave, stdout=slave, stderr=slave,
            env={**live.environment, "TERM": "xterm", **environment},
        )  # fmt: skip
        os.close(slave)
        process.wait(90)
        said = os.read(master, 1 << 16).decode()
        os.close(master)
        return said

    assert "\x1b[1m" in on_terminal()
    assert "\x1b" not in on_terminal(NO_COLOR="1")
    assert "\x1b" not in on_terminal(TERM="dumb")


def test_hanging_daemon_is_said_and_ended(live):
    """A hanging daemon is reported as hanging, not as absent; `restart` replaces it."""
    pid = live.process.pid
    live.process.send_signal(19)
    said = live.handoff("status")
    up = live.handoff("up")
    restarted = live.handoff("restart")
    live.process.wait(90)

    assert 1 == said.returncode
    assert "does not answer" in said.stderr
    assert "handoff restart" in said.stderr
    assert f"handoffd (process {pid}) does not answer" in up.stderr
    assert 0 == restarted.returncode, restarted.stderr
    assert 0 == live.handoff("down").returncode


def test_restart_with_a_broken_configuration_changes_nothing(live):
    """`restart` checks the configuration before it ends anything; `doctor` names the error."""
    config = live.home / ".config/handoffd/config.toml"
    config.parent.mkdir(parents=True)
    config.write_text("foo = [")
    done = live.handoff("restart")
    doctor = live.handoff("doctor")

    assert 1 == done.returncode
    assert "not valid TOML" in done.stderr
    assert live.answers()
    assert live.process.pid == live.call("status")["pid"]
    assert 1 == doctor.returncode
    assert "the configuration is broken" in doctor.stdout


@pytest.mark.parametrize("running", [True, False])
def test_no_project_no_save(sandbox, running):
    """`save` refuses $HOME, / and a directory that is gone, with a remedy."""
    if running:
        sandbox.start()
    gone = sandbox.project("gone")
    at_home = sandbox.handoff("save", "-m", "x", cwd=sandbox.home)
    at_root = sandbox.handoff("save", "-m", "x", cwd="/")
    lost = subprocess.run(
        ["sh", "-c", f'cd "{gone}" && rm -r "{gone}" && "{BIN}/handoff" save -m x'],
        env=sandbox.environment, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert [1, 1, 1] == [done.returncode for done in (at_home, at_root, lost)]
    assert "is no project; nothing was written" in at_home.stderr
    assert "git init" in at_root.stderr
    assert "The current directory no longer exists" in lost.stderr
    assert not (sandbox.home / ".flow-guardian").exists()
    assert not os.path.exists("/.flow-guardian")


def test_directories_that_do_not_exist(live):
    """`show` and `pause` of a missing directory are errors, not answers."""
    for command in ("show", "pause"):
        done = live.handoff(command, "/no/such/place")
        assert 1 == done.returncode
        assert "There is no directory /no/such/place" in done.stderr
    assert [] == live.call("status")["paused"]


@pytest.mark.parametrize("running", [True, False])
def test_long_words_are_cut_and_it_is_said(sandbox, running):
    """Text longer than 2,000 characters is cut, and the client says so."""
    if running:
        sandbox.start()
    project = sandbox.project()
    done = sandbox.handoff("save", "-m", "word " * 1000, cwd=project)

    assert "Cut to 2000 characters." in done.stdout


@pytest.mark.parametrize("running", [True, False])
def test_optional_fields_can_be_cleared(sandbox, running):
    """An empty --hypothesis clears it; an empty --goal is refused."""
    if running:
        sandbox.start()
    project = sandbox.project()
    sandbox.handoff("save", "-m", "x y z", "--hypothesis", "a theory", cwd=project)
    sandbox.handoff("save", "--hypothesis", "", cwd=project)

    assert "hypothesis: null" in sandbox.yaml(project)


@pytest.mark.quick
def test_why_shows_the_receipt(live):
    """`why` names the class, the record and the words behind a value, masked, or the person."""
    token = "ghp_" + "e5F6" * 9
    project = live.project()
    session = live.session(project)
    session.prompt(f"Add a discount code field.\n\nUse {token} for the upload, and tell nobody.")
    wait_for(lambda: "Add a discount" in live.yaml(project))
    goal = live.handoff("why", "goal", cwd=project)
    live.handoff("save", "--goal", "My own goal", cwd=project)
    own = live.handoff("why", "goal", cwd=project)
    nothing = live.handoff("why", "outcome", cwd=project)

    assert "quoted: somebody's words" in goal.stdout
    assert session.id in goal.stdout
    assert "tell nobody" in goal.stdout
    assert token not in goal.stdout
    assert "set by a person at" in own.stdout
    assert 1 == nothing.returncode
    assert "Nothing is known of outcome" in nothing.stderr
    assert "There is no field ../x" in live.handoff("why", "../x", cwd=project).stderr


def test_show_with_receipts(live):
    """`show --receipts` names the source of every value, and of each item of a list."""
    project = live.project()
    session = live.session(project)
    session.prompt("Add a discount code field to the checkout page")
    session.say("I'll look at the form first.")
    session.edit(f"{project}/src/checkout.py")
    wait_for(lambda: "Writing checkout.py" in live.document(project)["now"])
    shown = live.handoff("show", "--receipts", cwd=project).stdout
    plain = live.handoff("show", cwd=project).stdout
    why = live.handoff("why", "now", cwd=project).stdout

    for name in ("goal", "now", "next", "files"):
        assert re.search(
            rf"^{name} .*\n(?: +.*\n)*? +(?:quoted|observed|inferred) ", shown, re.MULTILINE
        )
    assert "record" not in plain
    assert ["quoted", "observed"] == re.findall(r"because +(\w+):", why)


def test_own_patterns_are_masked(sandbox):
    """A configured pattern is masked wherever it is kept; a broken pattern changes nothing."""
    config = sandbox.home / ".config/handoffd/config.toml"
    config.parent.mkdir(parents=True)
    config.write_text("[redact]\npatterns = { order = 'A-[0-9]{6}' }\n")
    project = sandbox.project()
    session = sandbox.session(project)
    session.prompt("Look into the order A-123456 of yesterday")
    sandbox.start()
    wait_for(lambda: "[redacted:order] of yesterday" in sandbox.yaml(project))
    config.write_text("[redact]\npatterns = { order = '(' }\n")
    sandbox.process.send_signal(signal.SIGHUP)
    wait_for(
        lambda: "`redact.patterns`: redaction pattern 'order'" in sandbox.handoff("status").stdout
    )
    session.prompt("And into the order A-654321 as well")

    wait_for(lambda: "And into the order [redacted:order] as well" in sandbox.yaml(project))
    assert [] == [
        path for path, text in contents_below(sandbox.state).items() if b"A-123456" in text
    ]


def test_another_users_socket_gets_no_word(sandbox):
    """A program of another user that listens on our path gets no request: `su` keeps the path."""
    if os.getuid() != 0:
        pytest.skip("becomes another user, which only root may do: run the tests as root")
    directory = sandbox.runtime / "handoffd"
    directory.mkdir(mode=0o755)
    sandbox.runtime.chmod(0o755)
    os.chown(directory, 65534, 65534)
    path = directory / "handoffd.sock"
    listener = (
        "import socket,sys;s=socket.socket(socket.AF_UNIX);s.bind(sys.argv[1]);s.listen();"
        "print('listening',flush=True);c=s.accept()[0];print(repr(c.recv(9)),flush=True)"
    )
    with subprocess.Popen(
        ["/usr/bin/env", "python3", "-I", "-c", listener, str(path)],
        user=65534, group=65534, cwd="/", stdout=subprocess.PIPE, text=True,
    ) as other:  # fmt: skip
        assert "listening\n" == other.stdout.readline()
        done = sandbox.handoff("status")
        heard = other.stdout.readline()

    assert (3, "b''\n") == (done.returncode, heard)
