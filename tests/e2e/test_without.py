"""Without hooks, with hooks that come late, and without a daemon."""

import sys
import time
from pathlib import Path

import pytest

from conftest import BIN, House, wait_for
from e2e.claude import Claude
from e2e.model import Model, say
from e2e.story import DONE, GOAL, NEXT, brief, briefs, field, known, opened, work
from e2e.terminal import Terminal
from e2e.test_compaction import compact
from left import PURPOSE, handoffs, text
from left import work as worked

# Runs the client, and notes down what it was asked, and how much of a processor it took.
MEASURE = """\
#!{python} -IS
import os, sys
child = os.spawnv(os.P_NOWAIT, {client!r}, [{client!r}, *sys.argv[1:]])
_, status, used = os.wait4(child, 0)
with open(__file__ + ".log", "a") as log:
    log.write(f"{{sys.argv[1]}} {{used.ru_utime + used.ru_stime}}\\n")
sys.exit(os.waitstatus_to_exitcode(status))
"""


@pytest.mark.parametrize("switched", ["off", "absent"])
def test_without_hooks(hooked: Claude, model: Model, served: House, switched: str):
    """The transcript alone suffices for handoff.yaml and for the handoff of a killed session."""
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


def prompts_and_is_heard(terminal: Terminal, house: House, since: float) -> bool:
    """Type a prompt, and tell whether the daemon heard of it: settings are reread in the end."""
    terminal.model.will(say("That part is done."))
    terminal.asks(f"Do part {len(terminal.model.requests)} of it, please")
    heard = house.call("status")["hooks"].get("UserPromptSubmit")
    return bool(heard) and heard["seconds"] < time.monotonic() - since


def test_hooks_that_come_late(hooked: Claude, model: Model, served: House):
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


def measured(directory: Path) -> tuple[Path, Path]:
    """Return a program that measures the client, and where it writes down what it found."""
    path = directory / "measured"
    path.write_text(MEASURE.format(python=sys.executable, client=f"{BIN}/handoff"))
    path.chmod(0o755)
    return path, Path(f"{path}.log")


def test_without_a_daemon(house: House, model: Model, version: str):
    """Each hook costs one start of the client, nothing is said of it, and the brief is told."""
    house.transcripts.mkdir(parents=True)
    claude = Claude(version, house, model, house.project())
    house.start()
    worked(house, claude.cwd)
    known(house, claude, goal=PURPOSE)
    wait_for(lambda: f"goal: {PURPOSE}" in house.yaml(claude.cwd), what="the file says so")
    house.stop()
    program, log = measured(house.home)
    claude.hook(f"{program} hook 2>&1")
    model.will(say("Well."))
    with Terminal(claude, "Go on") as terminal:
        terminal.played()
        shown = terminal.screen.text
        terminal.leave()
    for _ in range(3):
        house.handoff("status", program=str(program))
    costs = [line.split() for line in log.read_text().splitlines()]
    dearest = {
        name: max(float(cost) for found, cost in costs if found == name) for name, _ in costs
    }

    assert PURPOSE == field(brief(model.requests[0]), "Goal")
    assert "error" not in shown.lower()
    assert (
        b"hook_non_blocking_error" not in claude.transcript(model.requests[0].session).read_bytes()
    )
    # SessionStart, UserPromptSubmit, SessionEnd.
    assert ["hook"] * 3 == [name for name, _ in costs if name == "hook"]
    assert dearest["hook"] < 2 * dearest["status"], costs
