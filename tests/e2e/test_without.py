"""Without hooks, with hooks that come late, and without a daemon."""

import shutil
import sys
import time
from pathlib import Path

import pytest

from conftest import BIN, DaemonSandbox, wait_for
from e2e.claude import Claude
from e2e.model import Model, say
from e2e.story import DONE, GOAL, NEXT, brief, briefs, field, known, opened, work
from e2e.terminal import Terminal
from e2e.test_compaction import compact
from written_handoffs import PURPOSE, handoffs, text
from written_handoffs import work as worked

# Takes the interpreter's place, and notes its arguments, the loaded modules and started programs.
OBSERVER = """\
#!{python} -IS
import sys
log = open(__file__ + ".log", "a", buffering=1)
log.write(f"runs {{' '.join(sys.argv[1:4])}} {{' '.join(sys.argv[6:])}}\\n")
STARTS = ("subprocess.Popen", "os.fork", "os.exec", "os.posix_spawn", "os.system")
def note(event, given):
    if event == "import":
        log.write(f"loads {{given[0]}}\\n")
    elif event in STARTS:
        log.write(f"starts {{event}}\\n")
sys.addaudithook(note)
code = sys.argv[4]
sys.argv = ["-c", *sys.argv[5:]]
exec(code)
"""
# C, and a few small files of ours.
LIGHT = {
    "_json", "_socket", "posix", "pwd", "select", "sys", "time", "__future__",
    "handoff", "handoff.fast", "handoff.common", "handoff.common.paths", "handoff.common.errors",
    "handoff.common.wire", "handoff.common.ages",
}  # fmt: skip


@pytest.mark.parametrize("switched", ["off", "absent"])
def test_without_hooks(hooked: Claude, model: Model, served: DaemonSandbox, switched: str):
    """The transcript alone is enough for handoff.yaml and for a killed session's handoff."""
    with hooked.changing("settings.json") as settings:
        if switched == "off":
            settings["disableAllHooks"] = True
        else:
            del settings["hooks"]
    work(hooked)
    with Terminal(hooked, GOAL) as terminal:
        terminal.played()
        known(served, hooked, goal=GOAL, now=f"{DONE} {NEXT}", next=NEXT, files="tax.py")
        terminal.kill()
    wait_for(lambda: handoffs(served, hooked.cwd), what="a handoff")
    left = text(served, hooked.cwd)

    assert [] == briefs(model.requests[-1])
    wait_for(lambda: f"now: {DONE}" in served.yaml(hooked.cwd), what="the file says so")
    assert f"goal: {GOAL}\n" in served.yaml(hooked.cwd)
    assert f"purpose: {GOAL}\n" in left
    assert NEXT in left.partition("## Next")[2]
    assert [] == briefs(opened(hooked))


def prompts_and_is_heard(terminal: Terminal, sandbox: DaemonSandbox, since: float) -> bool:
    """Type a prompt, and return True if the daemon got its hook: settings are reread in the end."""
    terminal.model.will(say("That part is done."))
    terminal.asks(f"Do part {len(terminal.model.requests)} of it, please")
    heard = sandbox.call("status")["hooks"].get("UserPromptSubmit")
    return bool(heard) and heard["seconds"] < time.monotonic() - since


def test_hooks_that_come_late(hooked: Claude, model: Model, served: DaemonSandbox):
    """A session that began before the hooks were there is served from its first event."""
    with hooked.changing("settings.json") as settings:
        hooks = settings.pop("hooks")
    work(hooked)
    with Terminal(hooked, GOAL) as terminal:
        terminal.played()
        with hooked.changing("settings.json") as settings:
            settings["hooks"] = hooks
        begun = time.monotonic()
        terminal.until(lambda: prompts_and_is_heard(terminal, served, begun), "no hook is heard")
        compact(terminal, model)
        model.will(say("Well."))
        terminal.asks("Go on")

    assert GOAL == field(brief(model.requests[-1]), "Goal")


def observed(directory: Path) -> tuple[Path, Path]:
    """Return the client's own script with an observed interpreter, and the log of its notes."""
    (directory / "bin").mkdir(parents=True)
    (directory / "lib").symlink_to(BIN.parent / "lib")
    shutil.copy(BIN / "handoff", directory / "bin/handoff")
    python = directory / "bin/python"
    python.write_text(OBSERVER.format(python=sys.executable))
    python.chmod(0o755)
    return directory / "bin/handoff", Path(f"{python}.log")


@pytest.mark.both
def test_without_a_daemon(sandbox: DaemonSandbox, model: Model, version: str):
    """A hook is one start of the interpreter that loads next to nothing; the brief is told."""
    sandbox.transcripts.mkdir(parents=True)
    claude = Claude(version, sandbox, model, sandbox.project())
    sandbox.start()
    worked(sandbox, claude.cwd)
    known(sandbox, claude, goal=PURPOSE)
    wait_for(lambda: f"goal: {PURPOSE}" in sandbox.yaml(claude.cwd), what="the file says so")
    sandbox.stop()
    program, log = observed(sandbox.home / "observed")
    claude.hook(f"{program} hook 2>&1")
    model.will(say("Well."))
    with Terminal(claude, "Go on") as terminal:
        terminal.played()
        shown = terminal.screen.text
        terminal.leave()
    noted = [line.partition(" ")[::2] for line in log.read_text().splitlines()]

    assert PURPOSE == field(brief(model.requests[0]), "Goal")
    assert "error" not in shown.lower()
    assert (
        b"hook_non_blocking_error" not in claude.transcript(model.requests[0].session).read_bytes()
    )
    # SessionStart, UserPromptSubmit, SessionEnd.
    assert ["-I -S -c handoff hook"] * 3 == [words for what, words in noted if what == "runs"]
    assert set() == {name for what, name in noted if what == "loads"} - LIGHT
    assert [] == [event for what, event in noted if what == "starts"]
