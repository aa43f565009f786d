"""The next session is told the truth: nothing undone, nothing finished as open, nothing lost."""

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from conftest import BIN, REPOSITORY, DaemonSandbox, wait_for
from e2e.claude import Claude
from e2e.dialogs import BOTH, CODE, CONVERSATION, press, rewind
from e2e.model import Block, Model, Request, say, use, words
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
from e2e.terminal import ENTER, Terminal
from e2e.test_compaction import compact
from written_handoffs import text

UNDONE = "Print the labels of the parcels in colour"
THEN = "Sort the parcels by their weight"
OTHER = "Pack the small parcels before the large ones"


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


def told_of(document: dict) -> str:
    """Return the values of a state that say what is wanted, done and left."""
    names = ("goal", "now", "next", "questions", "outcome", "last_human_prompt")
    return "\n".join(str(document.get(name, "")) for name in names)


# Rewound work


def rewound(claude: Claude, sandbox: DaemonSandbox, what: str) -> tuple[dict, str]:
    """Take a prompt back, go on with another; return the state, and what is told of it."""
    model = claude.model
    work(claude)
    with Terminal(claude, GOAL) as terminal:
        terminal.played()
        model.will(writing(claude, "labels.py"), say("The labels have colours now."))
        terminal.asks(UNDONE)
        rewind(terminal, UNDONE, what)
        model.will(writing(claude, "weights.py"), say("The parcels are sorted by weight."))
        terminal.asks(THEN)
        found = known(sandbox, claude, files="weights.py", now="sorted by weight")
    return found, brief(opened(claude))


@pytest.mark.both
def test_rewound_conversation_and_code(hooked: Claude, served: DaemonSandbox):
    """Prompt, report and file of a branch that was taken back are told nowhere."""
    found, told = rewound(hooked, served, BOTH)

    assert not (hooked.cwd / "labels.py").exists()
    assert {"tax.py", "weights.py"} == {Path(name).name for name in found["files"]}
    assert not re.search("(?i)labels", told_of(found))
    assert not re.search("(?i)labels", told)
    assert "sorted by weight" in told


@pytest.mark.both
def test_rewound_conversation(hooked: Claude, served: DaemonSandbox):
    """The prompt that was taken back is told nowhere; its file, which was kept, is."""
    found, told = rewound(hooked, served, CONVERSATION)

    assert (hooked.cwd / "labels.py").exists()
    assert "labels.py" in {Path(name).name for name in found["files"]}
    assert UNDONE not in told_of(found)
    assert "labels have colours" not in told_of(found)
    assert UNDONE not in told
    assert "labels have colours" not in told


@pytest.mark.both
def test_rewound_code(hooked: Claude, served: DaemonSandbox):
    """A file that was taken back is not told as a file of the work."""
    found, told = rewound(hooked, served, CODE)

    assert not (hooked.cwd / "labels.py").exists()
    assert {"tax.py", "weights.py"} == {Path(name).name for name in found["files"]}
    assert "labels.py" not in told


@pytest.mark.both
def test_rewound_first_prompt(hooked: Claude, model: Model, served: DaemonSandbox):
    """The first prompt, taken back, is not the goal; the one that was typed instead is."""
    model.will(writing(hooked, "labels.py"), say("The labels have colours now."))
    with Terminal(hooked, UNDONE) as terminal:
        terminal.played()
        rewind(terminal, UNDONE, BOTH)
        model.will(writing(hooked, "weights.py"), say("The parcels are sorted by weight."))
        terminal.asks(THEN)
        found = known(served, hooked, files="weights.py", now="sorted by weight")
    told = brief(opened(hooked))

    assert THEN == found["goal"]
    assert ["weights.py"] == [Path(name).name for name in found["files"]]
    assert not re.search("(?i)labels", told_of(found))
    assert not re.search("(?i)labels", told)


# The goal and the open items


@pytest.mark.parametrize(
    "switch",
    [
        "Actually, forget the tax. The login takes any password: fix that in login.py instead",
        "Never mind the rounding, people can log in with any password. Fix login.py first",
    ],
)
def test_another_goal(hooked: Claude, model: Model, served: DaemonSandbox, switch: str):
    """A goal that a person gives up in their own words is followed by the one they name."""
    work(hooked)
    with Terminal(hooked, GOAL) as terminal:
        terminal.played()
        model.will(writing(hooked, "login.py"), say("login.py checks the password now."))
        terminal.asks(switch)
        found = known(served, hooked, files="login.py")
    told = brief(opened(hooked))

    assert "login.py" in found["goal"]
    assert "login.py" in field(told, "Goal")
    assert not re.search("(?i)shipping|tax", str(found.get("next", "")))
    assert NEXT not in field(told, "Next")


COMMIT = "git add -A && git commit -q -m 'Round tax per line'"
CLOSING = """\
handoff close <<'HANDOFF'
## Done
- Rounded tax per line
## Gotchas
- totals are in cents
HANDOFF"""


def with_commands(claude: Claude, sandbox: DaemonSandbox) -> None:
    """Give a client our slash commands, and its shell our program."""
    programs = sandbox.home / ".local/bin"
    programs.mkdir(parents=True, exist_ok=True)
    if not (programs / "handoff").exists():
        (programs / "handoff").symlink_to(BIN / "handoff")
    commands = REPOSITORY / "client/plugin/commands"
    shutil.copytree(commands, claude.config / "commands", dirs_exist_ok=True)
    claude.environment["PATH"] += f":{programs}"


@pytest.mark.both
def test_closed_after_finished_work(hooked: Claude, model: Model, served: DaemonSandbox):
    """A handoff that `/close` leaves after finished work does not ask for that work again."""
    with_commands(hooked, served)
    model.will(
        writing(hooked), use("Bash", command=COMMIT), say("Tax is rounded per line and committed.")
    )
    with Terminal(hooked, "--allowedTools=Bash", GOAL) as terminal:
        terminal.played()
        known(served, hooked, now="and committed")
        model.will(use("Bash", command=CLOSING), say("The handoff is written."))
        terminal.asks("/close")
        terminal.leave()
    left = text(served, hooked.cwd)
    found = served.document(hooked.cwd)

    assert "- Rounded tax per line\n" in left
    assert GOAL not in left.partition("\n## Next\n")[2].partition("\n## ")[0]
    assert GOAL == found["goal"]
    assert "The handoff is written." not in told_of(found)
    assert not [item for item in found.get("next", []) if "ax" in item or "close" in item]
    assert "completed" == found["status"]


STEPS = ("Round the tax of the drinks", "Print the rounding on the invoice", "Tell the accountants")
PLAN = "# Tax per line\n\n" + "\n".join(f"{n}. {step}" for n, step in enumerate(STEPS, 1)) + "\n"


def plan(request: Request) -> Block:
    """Write the plan into the file that the client names."""
    found = re.search(r"/\S+/plans/[\w.-]+\.md", words(request))
    assert found, "the client names no file for a plan"
    return use("Write", file_path=found[0], content=PLAN)


@pytest.mark.both
def test_an_approved_plan(hooked: Claude, model: Model, served: DaemonSandbox):
    """The open steps of an approved plan survive another prompt, a compaction and the session."""
    model.will(plan, use("ExitPlanMode", plan=PLAN))
    # Without it the tool would have to be looked up first.
    with Terminal(hooked, GOAL, mode="plan", ENABLE_TOOL_SEARCH="false") as terminal:
        terminal.until(lambda: not model.script, "there is no plan")
        model.will(writing(hooked), say("The tax of the drinks is rounded."))
        press(terminal, ENTER, "Would you like to proceed?")
        terminal.played()
        model.will(say("It has three tests."))
        terminal.asks("How many tests does the payment module have?")
        prompted = known(served, hooked, now="It has three tests.")
        compact(terminal, model)
        model.will(writing(hooked, "drinks.py"), say("The drinks have a file of their own."))
        terminal.asks("Go on")
        compacted = known(served, hooked, files="drinks.py")
    told = brief(opened(hooked))

    for found in (prompted, compacted):
        assert "payment module" not in found["goal"]
        assert all(step in str(found.get("next")) for step in STEPS[1:]), found
    assert all(step in told for step in STEPS[1:])


@pytest.mark.both
def test_a_queued_prompt(hooked: Claude, model: Model, served: DaemonSandbox):
    """A prompt that was typed during work is an open item after `kill -9`."""
    model.will(writing(hooked))
    with (
        Terminal(hooked, "--allowedTools=Bash", GOAL) as terminal,
        tool_at_work(terminal, model, "Now I'll run the tests.", "Run the tests"),
    ):
        terminal.write(THEN)
        terminal.sees(THEN)
        terminal.write(ENTER)
        path = hooked.transcript(model.requests[-1].session)
        terminal.until(lambda: '"enqueue"' in path.read_text(), "it was not queued")
        terminal.kill()
    known(served, hooked, now="(Run the tests)")
    wait_for(served.settled, what="the transcript is read")
    found = served.document(hooked.cwd)
    told = brief(opened(hooked))

    assert GOAL == found["goal"]
    assert THEN in str(found["next"])
    assert GOAL in told
    assert THEN in field(told, "Next")


# Sessions side by side


def test_work_in_a_worktree(hooked: Claude, served: DaemonSandbox, beside: Callable[..., Claude]):
    """Work in a worktree of the repository is told in its main checkout, with the place."""
    served.git(hooked.cwd, "commit", "-q", "--allow-empty", "-m", "begin")
    place = hooked.cwd / ".claude/worktrees/parcels"
    served.git(hooked.cwd, "worktree", "add", "-q", "-b", "parcels", str(place))
    other = beside(place)
    other.model.will(writing(other, "parcels.py"), say("Parcels are sorted by their size."))
    with Terminal(other, OTHER) as terminal:
        terminal.played()
        known(served, other, now="Parcels are sorted")
        told = "\n".join(briefs(opened(hooked)))

    assert OTHER in told
    assert "parcels" in told.replace(OTHER, "")


def test_two_sessions_in_one_file(
    hooked: Claude, served: DaemonSandbox, beside: Callable[..., Claude]
):
    """A session is told that another one is live and what it edits, and of a file of both."""
    other = beside()
    work(hooked)
    with Terminal(hooked, GOAL) as first:
        first.played()
        known(served, hooked, now=DONE)
        name = f"{hooked.cwd}/tax.py"
        other.model.will(
            use("Read", file_path=name),
            use("Edit", file_path=name, old_string="True", new_string="False"),
            say("The small parcels come first."),
        )
        with Terminal(other, OTHER) as second:
            second.played()
            known(served, other, now="The small parcels come first.")
            other.model.will(say("Well."))
            second.asks("And the heavy ones?")
    session = hooked.model.requests[0].session[:8]
    start, *later = briefs(other.model.requests[-1])

    assert session in start
    assert re.search(r"(?i)\b(live|at work|running|right now|still open)\b", start)
    assert "tax.py" in start
    assert [line for line in later if "tax.py" in line]


# Without the daemon

AGE = r"(?i)\d+ ?(s|sec|seconds?|min|minutes?|h|hours?)\b|just now|less than a minute|moments? ago"


def test_without_a_daemon(claude: Claude, model: Model, live: DaemonSandbox):
    """A session that starts while the daemon is down is told the last state with its age."""
    claude.hook()
    work(claude)
    with Terminal(claude, GOAL) as terminal:
        terminal.played()
        known(live, claude, now=DONE)
        terminal.leave()
    known(live, claude, now=DONE)
    live.stop()
    told = brief(opened(claude))

    assert GOAL in told
    assert re.search(AGE, told.replace(GOAL, ""))
