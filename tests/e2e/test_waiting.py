"""What waits for a person: a dialog that is open, and what arrives while a session goes on."""

from bridged import Mcp
from conftest import House
from e2e.claude import Claude
from e2e.model import Model, say, use, words
from e2e.story import GOAL, briefs, known
from e2e.terminal import ENTER, Terminal


def test_a_permission_dialog(hooked: Claude, model: Model, served: House):
    """The status is blocked while a dialog is open, and no longer when it was answered."""
    wish = use("Bash", command="touch paid && rm -f paid", description="Mark it as paid")
    model.will(wish, say("It is marked, and I'll go on with the next one."))
    with Terminal(hooked, GOAL, mode="default") as terminal:
        terminal.sees(r"Do you want to proceed\?")
        known(served, hooked, status="blocked")
        terminal.write(ENTER)
        terminal.played()
        known(served, hooked, status="in_progress")


def test_a_thread_that_speaks_up(hooked: Claude, model: Model, served: House):
    """A prompt is sent with nothing of ours, but for one line when a thread has something new."""
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
    assert line in words(model.requests[2])
