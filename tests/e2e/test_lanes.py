"""Several sessions: side by side, in worktrees, by a program, by a sub-agent, one after the other."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from conftest import DaemonSandbox, wait_for
from e2e.claude import Claude
from e2e.model import Held, Model, say, use, words
from e2e.story import DONE, GOAL, brief, briefs, field, known, opened, work, writing
from e2e.terminal import Terminal
from e2e.test_compaction import compact
from written_handoffs import PURPOSE
from written_handoffs import work as worked

OTHER = "Pack the small parcels before the large ones"
THIRD = "Translate the letters to the customers"


@pytest.fixture
def beside(hooked: Claude, served: DaemonSandbox) -> Iterator[Callable[..., Claude]]:
    """Another client of the same person's, with a model of its own."""
    models: list[Model] = []

    def client(cwd: Path = hooked.cwd) -> Claude:
        models.append(Model())
        return Claude(hooked.version, served, models[-1], cwd)

    yield client
    for model in models:
        model.close()


@pytest.mark.both
def test_two_at_once(hooked: Claude, served: DaemonSandbox, beside: Callable[..., Claude]):
    """A third session is told of both, and after a compaction each is told its own state."""
    other = beside()
    work(hooked)
    other.model.will(writing(other, "parcels.py"), say("Parcels are sorted by their size."))
    with Terminal(hooked, GOAL) as first, Terminal(other, OTHER) as second:
        first.played()
        second.played()
        for terminal, said in ((first, "Shipping, too."), (second, "By weight, too.")):
            terminal.model.will(say(said))
            terminal.asks("The other one as well, please")
            known(served, hooked, now=said)
        third = brief(opened(beside(), THIRD))
        for terminal in (first, second):
            compact(terminal, terminal.model)
            terminal.model.will(say("Well."))
            terminal.asks("Go on")

    assert OTHER == field(third, "Goal")
    assert hooked.model.requests[0].session[:8] in third
    assert [GOAL, OTHER] == [
        field(brief(client.model.requests[-1]), "Goal") for client in (hooked, other)
    ]


def test_two_worktrees(hooked: Claude, served: DaemonSandbox, beside: Callable[..., Claude]):
    """The work in one worktree is the state there, and one line in the other."""
    served.git(hooked.cwd, "commit", "-q", "--allow-empty", "-m", "begin")
    place = hooked.cwd.parent / f"{hooked.cwd.name}-parcels"
    served.git(hooked.cwd, "worktree", "add", "-q", "-b", "parcels", str(place))
    other = beside(place)
    work(hooked)
    sorted_by_size = "Parcels are sorted by their size. Next, I'll pack them."
    other.model.will(writing(other, "parcels.py"), say(sorted_by_size))
    with Terminal(hooked, GOAL) as first, Terminal(other, OTHER) as second:
        first.played()
        second.played()
        known(served, hooked, now=DONE)
        known(served, other, now="Parcels are sorted")
    here, there = brief(opened(hooked)), brief(opened(other))

    assert (GOAL, "main") == (field(here, "Goal"), field(here, "Branch"))
    assert (OTHER, "parcels") == (field(there, "Goal"), field(there, "Branch"))
    for text, other, tree in ((here, OTHER, place), (there, GOAL, hooked.cwd)):
        (line,) = (line for line in text.splitlines() if other in line)
        assert line.startswith(f"**Elsewhere:** work tree {tree}, session ")


def lane_of(sandbox: DaemonSandbox, claude: Claude, session_id: str) -> dict | None:
    lanes = sandbox.show(claude.cwd)["lanes"]
    return next((lane for lane in lanes if lane["session_id"] == session_id), None)


def test_a_program_displaces_nobody(hooked: Claude, model: Model, served: DaemonSandbox):
    """`claude -p` counts as headless, and a person's goal stands beside it and after it."""
    work(hooked)
    with Terminal(hooked, GOAL) as terminal:
        terminal.played()
        held = Held(say("No. 7 is the newest release."))
        model.will(held)
        running = hooked.start("-p", OTHER)
        assert held.asked.wait(60)
        lane = wait_for(lambda: lane_of(served, hooked, model.requests[-1].session))
        found = served.document(hooked.cwd)
        held.go.set()
        assert 0 == running.wait(60)

    assert lane["headless"]
    assert [GOAL, GOAL] == [found["goal"], served.document(hooked.cwd)["goal"]]
    assert GOAL == field(brief(opened(hooked)), "Goal")


def test_a_sub_agent(hooked: Claude, model: Model, served: DaemonSandbox):
    """A sub-agent's requests get nothing of ours, and its words are not the session's."""
    worked(served, hooked.cwd)
    known(served, hooked, goal=PURPOSE)
    wanted = "Find every caller of the function total in this code base"
    held = Held(say("I looked everywhere. Next, I'll look into the tests."))
    model.agent.append(held)
    # The newer client lets it work beside, and tells the model when it is done.
    meanwhile = [say("An agent looks for them.")] if hooked.version == "325" else []
    model.will(
        use("Agent", description="Find callers", prompt=wanted, subagent_type="general-purpose"),
        *meanwhile,
        say("The function total has no callers."),
    )
    with Terminal(hooked, OTHER) as terminal:
        terminal.until(held.asked.is_set, "no sub-agent began")
        terminal.until(lambda: len(model.script) == 1, "it does not go on beside the sub-agent")
        during = known(served, hooked, goal=OTHER)
        held.go.set()
        terminal.played()
        after = known(served, hooked, now="The function total has no callers.")

    assert 1 == len(briefs(model.requests[0]))
    (request,) = model.agents
    assert wanted in words(request)
    assert [] == briefs(request)
    assert [OTHER, OTHER] == [during["goal"], after["goal"]]
    assert not any(
        "everywhere" in text or "Find every" in text for text in map(str, after.values())
    )


def test_an_unrelated_first_prompt(hooked: Claude, model: Model, served: DaemonSandbox):
    """A new session with another subject keeps it, and is told of the old work once."""
    worked(served, hooked.cwd)
    known(served, hooked, goal=PURPOSE)
    model.will(writing(hooked, "letters.py"), say("The letters are in letters.py now."))
    with Terminal(hooked, THIRD) as terminal:
        terminal.played()
        model.will(say("The Dutch ones are done."))
        terminal.asks("Begin with the Dutch ones")
        found = known(served, hooked, now="The Dutch ones are done.")

    assert PURPOSE == field(brief(model.requests[-1]), "Goal")
    assert THIRD == found["goal"]
    assert "previous_goal" not in found
    assert PURPOSE not in str(found)
    wait_for(lambda: f"goal: {THIRD}\n" in served.yaml(hooked.cwd), what="the file says so")
