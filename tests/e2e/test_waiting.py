"""Things that wait for a person: an open dialog, and entries that arrive during a session."""

import pytest

from conftest import BIN, DaemonSandbox
from e2e.claude import Claude
from e2e.model import Model, say, use, words
from e2e.story import GOAL, briefs, known, work
from e2e.terminal import ENTER, Terminal
from mcp_socket_client import Mcp
from written_handoffs import PURPOSE
from written_handoffs import work as worked


@pytest.mark.both
def test_a_permission_dialog(hooked: Claude, model: Model, served: DaemonSandbox):
    """The status is blocked while a dialog is open, and no longer after the answer."""
    wish = use("Bash", command="touch paid && rm -f paid", description="Mark it as paid")
    model.will(wish, say("It is marked, and I'll go on with the next one."))
    with Terminal(hooked, GOAL, mode="default") as terminal:
        terminal.sees(r"Do you want to proceed\?")
        known(served, hooked, status="blocked")
        terminal.write(ENTER)
        terminal.played()
        known(served, hooked, status="in_progress")


def test_a_thread_that_speaks_up(hooked: Claude, model: Model, served: DaemonSandbox):
    """A prompt gets no text of ours, except one line when a thread has new entries."""
    with Mcp(served, "code", hooked.cwd) as code:
        thread = code.create("JWT.", title="Auth")
    model.will(say("One."))
    with Terminal(hooked, GOAL) as terminal:
        terminal.played()
        model.will(say("Two."))
        terminal.asks("Then the second one")
        quiet = words(model.requests[-1])
        with Mcp(served, "chat", hooked.cwd) as chat:
            chat.add(thread, "30 days.", "decision")
        for prompt in ("Then the third one", "Then the fourth one"):
            model.will(say("Three."))
            terminal.asks(prompt)

    assert thread not in quiet
    assert [] == briefs(model.requests[1])
    (line,) = briefs(model.requests[-1])
    assert thread in line
    assert "30 days." not in line
    assert [line] == briefs(model.requests[2])


def test_a_call_for_a_person(hooked: Claude, model: Model, served: DaemonSandbox):
    """A handoff that calls for a person says so in one line to a session that is at work."""
    session = worked(served, hooked.cwd)
    known(served, hooked, goal=PURPOSE)
    closing = ("close", "--session", session.id, "--next", "Ask for the rates")
    assert 0 == served.handoff(*closing, cwd=hooked.cwd).returncode
    model.will(say("One."))
    with Terminal(hooked, "Translate the letters to the customers") as terminal:
        terminal.played()
        assert 0 == served.handoff("escalate", "Who sets the rates?", cwd=hooked.cwd).returncode
        model.will(say("Two."))
        terminal.asks("Begin with the Dutch ones")

    brief, line = briefs(model.requests[-1])
    assert "Who sets the rates?" not in brief
    assert "HUMAN REVIEW NEEDED: Who sets the rates?" in line
    assert "\n" not in line


@pytest.mark.both
def test_the_status_line(hooked: Claude, model: Model, served: DaemonSandbox):
    """The goal is shown below the prompt."""
    with hooked.changing("settings.json") as settings:
        settings["statusLine"] = {"type": "command", "command": f"{BIN}/handoff statusline"}
    work(hooked)
    with Terminal(hooked, GOAL) as terminal:
        terminal.played()
        # Below the box in which is typed.
        terminal.sees(rf"(?s)\n❯\s+─+\n(?!.*❯).*{GOAL}")
