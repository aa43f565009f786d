"""Without hooks, with hooks that come late, and without a daemon."""

import json
import resource
import subprocess
from pathlib import Path

import pytest

from conftest import BIN, House, wait_for
from e2e.claude import Claude
from e2e.model import Model, say
from e2e.story import DONE, GOAL, NEXT, brief, briefs, field, known, opened, work
from e2e.terminal import Terminal
from e2e.test_compaction import compact
from left import handoffs, text


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


def test_hooks_that_come_late(hooked: Claude, model: Model, served: House):
    """A session that began before the hooks were there is served from its first event."""
    with hooked.changing("settings.json") as settings:
        hooks = settings.pop("hooks")
    work(hooked)
    with Terminal(hooked, GOAL) as terminal:
        terminal.played()
        with hooked.changing("settings.json") as settings:
            settings["hooks"] = hooks
        model.will(say("Shipping is rounded, too."))
        terminal.asks("Do the same for shipping, then")
        known(served, hooked, now="Shipping is rounded, too.")
        compact(terminal, model)
        model.will(say("Well."))
        terminal.asks("Go on")

    assert GOAL == field(brief(model.requests[-1]), "Goal")
