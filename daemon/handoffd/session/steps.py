"""Steps that are still to be done: of a plan, of a summary, of the end of a statement. Pure.

A step survives any number of prompts. Deeds and reports that name it close it, another list of
its group replaces it, and a new piece of work drops it.
"""

import re
from collections.abc import Iterable

from handoffd.session.state import STEPS_MAX, SessionState, Statement, Step, Value
from handoffd.session.statements import statements
from handoffd.session.text import sentences, words_of

PLAN, SUMMARY, STATEMENT = "plan", "summary", "statement"
# A step is done if a report or a commit has this share of its words.
CLOSED_SHARE = 0.6
# A step that nobody touched for so many requests is told no more.
REQUESTS_MAX = 4
# Words with the same beginning are forms of one word: "round" and "rounded".
STEM = 5
_REPORTS = re.compile(r"(?i)\b(?:\w{2,}ed|done|written|built|made|sent|set|finished)\b")
_OPEN = re.compile(
    r"(?i)\b(?:not|will|need|needs|to be|once|if|when|next|before|half|partly)\b|n't|'ll|\?"
)
_EVERYTHING = re.compile(
    r"(?i)\b(?:everything|all (?:\w+ ){0,2}(?:steps|parts|phases|items|points|tasks)"
    r"|(?:whole|entire|full) plan|plan is (?:done|complete\w*|implemented|finished))\b"
)


def replace(state: SessionState, group: str, values: Iterable[Value]) -> None:
    """Replace the steps of a group."""
    kept = [step for step in state.steps if step.group != group]
    new = [Step(value, group, state.prompts) for value in values if value.text]
    state.steps = [*new, *kept][:STEPS_MAX]


def close_reported(state: SessionState, *, goes_on: bool) -> None:
    """Close the steps that the last answer reports; a person who asks to go on expects more."""
    if state.steps:
        state.steps = _left_by(statements(state)[-1], state.steps, goes_on=goes_on)


def _left_by(said: Statement, steps: list[Step], *, goes_on: bool = False) -> list[Step]:
    """Return the steps that an answer leaves open.

    A report leaves those that it calls open, and of a plan those behind the ones that it names.
    """
    steps = [step for step in steps if step.group != PLAN or not _is_reported(step, said)]
    if not said.done or said.intention:
        return steps
    left = [words_of(text) for text in said.steps]
    later = _behind_reported(said, steps, goes_on=goes_on)
    return [step for step in steps if step in later or any(_is_in(step, words) for words in left)]


def _is_reported(step: Step, said: Statement) -> bool:
    """Return True if a sentence says that a step is done: "The drinks are rounded"."""
    mine = _stems(step.value.text)
    return any(
        len(mine & _stems(part)) >= CLOSED_SHARE * len(mine)
        for part in sentences(f"{said.opening.text}\n{said.ending}")
        if _REPORTS.search(part) and not _OPEN.search(part)
    )


def _behind_reported(said: Statement, steps: list[Step], *, goes_on: bool) -> list[Step]:
    if _EVERYTHING.search(said.opening.text):
        return []
    plan = [step for step in steps if step.group == PLAN]
    words = _stems(f"{said.opening.text} {said.ending}")
    for number, step in reversed(list(enumerate(plan))):
        mine = _stems(step.value.text)
        if mine and len(mine & words) >= CLOSED_SHARE * len(mine):
            return plan[number + 1 :]
    return plan if goes_on else []


def _stems(text: str) -> set[str]:
    return {word[:STEM] for word in words_of(text)}


def close_committed(state: SessionState, subject: str) -> None:
    """Close the steps that a commit names, and those of a summary: a stale step misleads."""
    words = words_of(subject)
    state.steps = [
        step for step in state.steps if step.group != SUMMARY and not _is_in(step, words)
    ]


def _is_in(step: Step, words: set[str]) -> bool:
    mine = words_of(step.value.text)
    return len(mine) > 1 and len(mine & words) >= CLOSED_SHARE * len(mine)


def open_steps(state: SessionState, answer: Statement | None) -> list[Value]:
    """Return the steps that are still to be done, after the answer that ended the turn."""
    fresh = [step for step in state.steps if state.prompts - step.requests <= REQUESTS_MAX]
    return [step.value for step in (_left_by(answer, fresh) if answer else fresh)]
