"""However a session ends, the first request of the next one names the session's subject."""

import re

import pytest

from conftest import DaemonSandbox, timestamp, wait_for
from e2e.claude import Claude
from e2e.model import Model, Request, limited, say
from e2e.story import (
    DONE,
    GOAL,
    NEXT,
    brief,
    briefs,
    field,
    known,
    opened,
    tool_at_work,
    work,
    writing,
)
from e2e.terminal import Terminal
from mcp_socket_client import Mcp
from written_handoffs import handoffs, text
from written_handoffs import work as worked


def says_what_was_left(request: Request) -> None:
    """Assert that a session is told the goal, now, next and files of GOAL's session."""
    told = brief(request)
    assert GOAL == field(told, "Goal")
    assert DONE == field(told, "Now")
    assert NEXT in field(told, "Next")
    assert "tax.py" == field(told, "Files")


@pytest.mark.both
def test_killed_in_the_middle_of_a_tool_call(hooked: Claude, model: Model, served: DaemonSandbox):
    """After `kill -9` while a command runs, the next session knows the goal, now and next."""
    said = "The rounding is in tax.py. Now I'll run the tests."
    model.will(writing(hooked))
    with (
        Terminal(hooked, "--allowedTools=Bash", GOAL) as terminal,
        tool_at_work(terminal, model, said, "Run the tests"),
    ):
        known(served, hooked, now="(Run the tests)")
        terminal.kill()
    told = brief(opened(hooked))

    assert GOAL == field(told, "Goal")
    assert "The rounding is in tax.py. (Run the tests)" == field(told, "Now")
    assert f"- {GOAL} (Run the tests)" in field(told, "Next")
    assert "tax.py" == field(told, "Files")


@pytest.mark.both
def test_left_by_exit(hooked: Claude, model: Model, served: DaemonSandbox):
    """After `/exit` the session's handoff is there, and the next session is told its content."""
    work(hooked)
    with Terminal(hooked, GOAL) as terminal:
        terminal.played()
        terminal.leave()
    wait_for(lambda: handoffs(served, hooked.cwd), what="a handoff")

    assert f"purpose: {GOAL}\n" in text(served, hooked.cwd)
    says_what_was_left(opened(hooked))


@pytest.mark.both
def test_cleared(hooked: Claude, model: Model, served: DaemonSandbox):
    """After `/clear` the first request, of another session, names the subject of the old one."""
    work(hooked)
    with Terminal(hooked, GOAL) as terminal:
        terminal.played()
        known(served, hooked, now=DONE)
        terminal.type("/clear")
        terminal.until(lambda: "tax.py" not in terminal.screen.text, "it was not cleared")
        model.will(say("Well."))
        terminal.asks("Go on")

    assert model.requests[0].session != model.requests[-1].session
    says_what_was_left(model.requests[-1])


def test_ended_by_a_rate_limit(hooked: Claude, model: Model, served: DaemonSandbox):
    """A session that a limit stopped is told with the request that was not answered."""
    work(hooked)
    with Terminal(hooked, GOAL) as terminal:
        terminal.played()
        model.will(limited())
        terminal.asks("Then round shipping as well")
        known(served, hooked, status="blocked")
        terminal.leave()
    told = brief(opened(hooked))

    assert GOAL == field(told, "Goal")
    assert "blocked" == field(told, "Status")
    assert re.search(r"Stopped by an error: .*rate limit", field(told, "Now"))
    assert "- Then round shipping as well" in field(told, "Next")


@pytest.mark.both
def test_resumed(hooked: Claude, model: Model, served: DaemonSandbox):
    """A resumed session is told nothing twice, and is told the events since its end."""
    worked(served, hooked.cwd)
    known(served, hooked, goal=GOAL)
    work(hooked)
    with Terminal(hooked, "Bring the tax of the invoices in order") as terminal:
        terminal.played()
        terminal.leave()
    session = model.requests[-1].session
    again = opened(hooked, "Go on", "--resume", session)
    assert session == again.session
    assert [GOAL] == [field(told, "Goal") for told in briefs(again)]

    other = served.session(hooked.cwd)
    other.prompt("Pack small parcels first")
    other.edit(f"{hooked.cwd}/parcels.py")
    known(served, hooked, goal="Pack small parcels first")
    once_more = opened(hooked, "And now", "--resume", session)
    assert session == once_more.session
    first, second = briefs(once_more)
    assert briefs(again) == [first]
    assert "Pack small parcels first" in second


def test_forked(hooked: Claude, model: Model, served: DaemonSandbox):
    """A fork has the text that its origin was told, and is not told it again."""
    worked(served, hooked.cwd)
    known(served, hooked, goal=GOAL)
    work(hooked)
    with Terminal(hooked, "Bring the tax of the invoices in order") as terminal:
        terminal.played()
        terminal.leave()
    session = model.requests[-1].session
    fork = opened(hooked, "Go on", "--resume", session, "--fork-session")

    assert session != fork.session
    assert [GOAL] == [field(told, "Goal") for told in briefs(fork)]
    assert "Bring the tax of the invoices in order" == served.document(hooked.cwd)["goal"]


def test_all_that_is_told(hooked: Claude, model: Model, served: DaemonSandbox):
    """A brief has the newest handoff's warnings, the changes since, and the unread entries."""
    project = hooked.cwd
    # So long ago that no session counts as being at work any more.
    session = worked(served, project, ago=3600)
    known(served, hooked, goal=GOAL)
    closing = ["close", "--session", session.id, "--gotcha", "Totals are in cents"]
    closing += ["--escalate", "Who sets the rates?"]
    assert 0 == served.handoff(*closing, cwd=project).returncode
    served.git(project, "checkout", "-q", "-b", "parcels")
    served.git(project, "commit", "-q", "--allow-empty", "-m", "Sort the parcels")
    with Mcp(served, "code", project) as code, Mcp(served, "chat", project) as chat:
        thread = code.create("JWT.", title="Auth")
        chat.add(thread, "30 days.", "decision")
    wait_for(lambda: "Sort" in served.handoff("inject", cwd=project).stdout, what="the commit")
    told = brief(opened(hooked))

    assert GOAL == field(told, "Goal")
    assert "- Watch out: Totals are in cents" in told
    assert "HUMAN REVIEW NEEDED:** Who sets the rates?" in told
    assert "the branch is parcels, it was main" in told
    assert "1 new commit: " in told
    assert "Sort the parcels" in told
    assert f"{thread} (1)" in told


@pytest.mark.parametrize("why", ["old", "completed"])
def test_what_is_over(hooked: Claude, model: Model, served: DaemonSandbox, why: str):
    """Work that is a week old, or completed, is told in one line."""
    project, ago = hooked.cwd, 8 * 86400 if why == "old" else 60
    session = served.session(project)
    session.prompt(GOAL, timestamp=timestamp(ago))
    session.edit(f"{project}/tax.py", timestamp=timestamp(ago))
    session.say(DONE, timestamp=timestamp(ago))
    known(served, hooked, now=DONE)
    if why == "completed":
        assert 0 == served.handoff("save", "--status", "completed", cwd=project).returncode
        known(served, hooked, status="completed")
    (line,) = [line for line in brief(opened(hooked)).splitlines() if GOAL in line]

    assert DONE in line
