"""The steps of a workflow: each is done, skipped with a reason, or failed, and is told at once."""

import errno
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

from handoff.common.errors import HandoffError
from handoff.common.remedies import remedy
from handoffd.errors import StoreError
from handoffd.redaction.redact import redact

# A full disk: whatever comes next could only do half of it.
_FULL = (errno.ENOSPC, errno.EDQUOT)
DONE, SKIPPED, FAILED, WAITING = "done", "skipped", "failed", "waiting"


class Step(NamedTuple):
    """What came of a step; its number is the seed's."""

    number: str
    name: str
    outcome: str
    text: str


class SkippedError(Exception):
    """There is nothing to do here; the message says why."""


class WaitingError(Exception):
    """It is on its way, and is tried again until it is there; the message says what keeps it."""


class StoppedError(Exception):
    """No further step is taken: a choice is needed, or what there was is all that is kept."""


Tell = Callable[[Step], None]


@dataclass(slots=True)
class StepRun:
    """A workflow under way."""

    tell: Tell
    steps: list[Step] = field(default_factory=list)
    # What failed may go well the next time: the disk, or the store.
    passing: bool = False

    def note(self, number: str, name: str, outcome: str, text: str) -> None:
        # A branch or a file may be named after a secret.
        step = Step(number, name, outcome, redact(text)[0])
        self.steps.append(step)
        self.tell(step)

    def revise(self, number: str, outcome: str, text: str) -> None:
        """Say what came of a step in the end."""
        for at, step in enumerate(self.steps):
            if step.number == number:
                self.steps[at] = step._replace(outcome=outcome, text=redact(text)[0])
                self.tell(self.steps[at])

    def outcome_of(self, number: str) -> str:
        return next((step.outcome for step in self.steps if step.number == number), "")

    @property
    def failed(self) -> list[Step]:
        return [step for step in self.steps if step.outcome == FAILED]

    def listed(self) -> list[dict[str, Any]]:
        return [step._asdict() for step in self.steps]


R = TypeVar("R", bound=StepRun)


class StepAction(NamedTuple, Generic[R]):
    """A step to take: it returns what it did; `needed` ends the workflow if it fails."""

    number: str
    name: str
    act: Callable[[R], str]
    needed: bool = False


def walk(run: R, actions: Sequence[StepAction[R]]) -> bool:
    """Take the steps in turn; False if the workflow was stopped."""
    for action in actions:
        outcome, text, full = DONE, "", False
        try:
            text = action.act(run)
        except SkippedError as reason:
            outcome, text = SKIPPED, str(reason)
        except WaitingError as reason:
            outcome, text = WAITING, str(reason)
        except StoppedError as reason:
            run.note(action.number, action.name, SKIPPED, str(reason))
            return False
        except (HandoffError, OSError) as problem:
            outcome, text = FAILED, described(problem)
            run.passing = run.passing or isinstance(problem, (OSError, StoreError))
            full = isinstance(problem, OSError) and problem.errno in _FULL
        run.note(action.number, action.name, outcome, text)
        if outcome == FAILED and (action.needed or full):
            return False
    return True


def described(problem: Exception) -> str:
    """Say what went wrong in one line, with the remedy."""
    if isinstance(problem, HandoffError):
        return " ".join(part for part in (problem.title, problem.hint) if part)
    if isinstance(problem, OSError) and problem.strerror:
        place = f"{problem.filename}: " if problem.filename else ""
        return f"{place}{problem.strerror}. {remedy(problem)}".rstrip()
    return type(problem).__name__
