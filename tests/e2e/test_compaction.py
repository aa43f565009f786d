"""A compaction: the session is told its own state again, and nothing of it becomes evidence."""

import pytest

from conftest import DaemonSandbox
from e2e.claude import Claude
from e2e.model import Model, reading, say, use, words
from e2e.story import GOAL, brief, briefs, field, known, work, writing
from e2e.terminal import Terminal
from written_handoffs import PURPOSE
from written_handoffs import work as worked

MINE = "Print the invoices of a month as one document"
MODEL = ("--model", "claude-sonnet-4-6")
# So much is more than the model can hold.
FULL = 172_000


def compact(terminal: Terminal, model: Model) -> None:
    """Type /compact, and wait until it is done."""
    terminal.rests()
    before = len(model.compactions)
    terminal.type("/compact")
    terminal.until(lambda: len(model.compactions) > before, "no summary was asked for")
    terminal.sees(r"(?i)conversation compacted|compacted \(")
    terminal.rests()


def summary(model: Model) -> str:
    """Return a summary as a model writes it, which quotes the text that we told the session."""
    told = briefs(model.requests[-1])[-1]
    return (
        "<analysis>\nWalked through.\n</analysis>\n\n<summary>\n"
        f"1. Primary Request and Intent:\n   {MINE}\n\n"
        f"2. Key Technical Concepts:\n   - The session began with this record:\n{told}\n"
        f"   - It said that the goal was: {PURPOSE}\n\n"
        "6. All user messages:\n   - Print the invoices of a month as one document\n\n"
        "7. Pending Tasks:\n   - Number the pages of the document\n\n"
        "8. Current Work:\n   month.py was written.\n</summary>"
    )


def test_by_hand(hooked: Claude, model: Model, served: DaemonSandbox):
    """After `/compact` the session is told its own state; the summary gets no words of ours."""
    work(hooked)
    with Terminal(hooked, GOAL) as terminal:
        terminal.played()
        model.will(say("Shipping is rounded, too."))
        terminal.asks("Do the same for shipping, then")
        known(served, hooked, now="Shipping is rounded, too.")
        compact(terminal, model)
        model.will(say("Well."))
        terminal.asks("Go on")
    told = brief(model.requests[-1])

    assert [] == briefs(model.compactions[0])
    assert "Additional Instructions" not in words(model.compactions[0])
    assert GOAL == field(told, "Goal")
    assert "Shipping is rounded, too." in field(told, "Now")
    assert "tax.py" == field(told, "Files")


@pytest.mark.both
def test_by_itself(hooked: Claude, model: Model, served: DaemonSandbox):
    """An automatic compaction, between two requests, has the same effect."""
    work(hooked)
    with Terminal(hooked, *MODEL, GOAL) as terminal:
        terminal.played()
        model.will(reading(FULL, writing(hooked, "shipping.py")), say("Shipping is rounded."))
        terminal.asks("Do the same for shipping, then")
    told = brief(model.requests[-1])

    assert 1 == len(model.compactions)
    assert GOAL == field(told, "Goal")
    assert "Do the same for shipping, then" in field(told, "Next")
    assert "shipping.py" in field(told, "Files")


def test_twice(hooked: Claude, model: Model, served: DaemonSandbox):
    """Our words, even quoted in a summary, are never taken for the session's own."""
    worked(served, hooked.cwd)
    known(served, hooked, goal=PURPOSE)
    model.will(writing(hooked, "month.py"), say("month.py is there. Now I'll number the pages."))
    with Terminal(hooked, *MODEL, MINE) as terminal:
        terminal.played()
        model.will(say("The pages have numbers."))
        terminal.asks("Number them at the bottom, please")
        model.summary = summary(model)
        compact(terminal, model)
        model.will(say("Well."))
        terminal.asks("Go on")
        once = served.document(hooked.cwd)
        told = [briefs(model.requests[-1])[-1]]

        model.summary = summary(model)
        model.will(
            reading(FULL, writing(hooked, "month.css")), say("The document has a style of its own.")
        )
        terminal.asks("Give it a style as well")
        twice = known(served, hooked, now="The document has a style of its own.")
        told.append(briefs(model.requests[-1])[-1])

    assert 2 == len(model.compactions)
    for found in (once, twice):
        assert MINE == found["goal"]
        echoes = [*found.get("next", []), found["now"], found.get("previous_goal", "")]
        assert not any(PURPOSE in text or "handoffd" in text for text in echoes), echoes
    assert [MINE, MINE] == [field(text, "Goal") for text in told]
    assert not any(PURPOSE in field(text, name) for text in told for name in ("Now", "Next"))


def test_what_the_summary_lacks(hooked: Claude, model: Model, served: DaemonSandbox):
    """A failed command that the summary lacks reaches the session with the next prompt."""
    work(hooked)
    with Terminal(hooked, *MODEL, GOAL) as terminal:
        terminal.played()
        model.will(use("Bash", command="cat tariffs-of-2027"), say("The tariffs are missing."))
        terminal.asks("Read the tariffs")
        known(served, hooked, now="The tariffs are missing.")
        model.summary = f"<summary>\n1. Primary Request and Intent:\n   {GOAL}\n</summary>"
        compact(terminal, model)
        model.will(say("Well."))
        terminal.asks("Go on")
        model.will(say("Well, well."))
        terminal.asks("Go on")
    told = [text for text in briefs(model.requests[-1]) if "Not in the summary:" in text]

    assert 1 == len(told)
    assert "cat tariffs-of-2027 failed" in told[0]
