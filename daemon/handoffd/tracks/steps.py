"""Runs the steps of a workflow: each is done, skipped or failed, and is reported at once."""

import errno
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

from handoff.common.errors import HandoffError
from handoff.common.remedies import remedy
from handoffd.errors import StoreError
from handoffd.redaction.redact import redact

# A full disk: any further step could do only half of its work.
_FULL = (errno.ENOSPC, errno.EDQUOT)
DONE, SKIPPED, FAILED, WAITING = "done", "skipped", "failed", "waiting"


class Step(NamedTuple):
    """The outcome of a step; its number is the specified one."""

    number: str
    name: str
    outcome: str
    text: str


class SkippedError(Exception):
    """The step has nothing to do; the message says why."""


class StoppedError(Exception):
    """The workflow ends here: it was cancelled, needs a choice, or has nothing to work on."""


Tell = Callable[[Step], None]


@dataclass(slots=True)
class StepRun:
    """A workflow under way."""

    tell: Tell
    steps: list[Step] = field(default_factory=list)
    # The failure may be over at the next attempt: it came from the disk or the store.
    transient: bool = False

    def note(self, number: str, name: str, outcome: str, text: str) -> None:
        # The name of a branch or a file may hold a secret.
        step = Step(number, name, outcome, redact(text)[0])
        self.steps.append(step)
        self.tell(step)

    def revise(self, number: str, outcome: str, text: str) -> None:
        """Replace the outcome of a step by its final one."""
        for at, step in enumerate(self.steps):
            if step.number == number:
                self.steps[at] = step._replace(outcome=outcome, text=redact(text)[0])
                self.tell(self.steps[at])

    def outcome_of(self, number: str) -> str:
        return next((step.outcome for step in self.steps if step.number == number), "")

    @property
    def failed(self) -> list[Step]:
        return [step for step in self.steps if step.outcome == FAILED]

    def as_dicts(self) -> list[dict[str, Any]]:
        return [step._asdict() for step in self.steps]


R = TypeVar("R", bound=StepRun)


class StepAction(NamedTuple, Generic[R]):
    """A step: `act` returns a text about its work; if a `needed` step fails, the workflow ends."""

    number: str
    name: str
    act: Callable[[R], str]
    needed: bool = False


def run_steps(run: R, actions: Sequence[StepAction[R]]) -> bool:
    """Run the steps in turn. Return False if the workflow was stopped."""
    for action in actions:
        outcome, text, full = DONE, "", False
        try:
            text = action.act(run)
        except SkippedError as reason:
            outcome, text = SKIPPED, str(reason)
        except StoppedError as reason:
            run.note(action.number, action.name, SKIPPED, str(reason))
            return False
        except (HandoffError, OSError) as problem:
            outcome, text = FAILED, error_text(problem)
            run.transient = run.transient or isinstance(problem, (OSError, StoreError))
            full = isinstance(problem, OSError) and problem.errno in _FULL
        run.note(action.number, action.name, outcome, text)
        if outcome == FAILED and (action.needed or full):
            return False
    return True


def error_text(problem: Exception) -> str:
    """Return an error as one line, with the remedy."""
    if isinstance(problem, HandoffError):
        return " ".join(part for part in (problem.title, problem.hint) if part)
    if isinstance(problem, OSError) and problem.strerror:
        place = f"{problem.filename}: " if problem.filename else ""
        return f"{place}{problem.strerror}. {remedy(problem)}".rstrip()
    return type(problem).__name__
