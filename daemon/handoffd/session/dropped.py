"""What a compaction dropped: open items and rules that the client's summary does not mention. Pure.

An item counts as mentioned if half of its words stand close together in the summary, in any order
and with any endings. It leaves the list when it is settled, or when a request or an answer
mentions it; a new piece of work clears the list.
"""

import re
from collections.abc import Iterator

from handoffd.agents.test_runs import is_test_command
from handoffd.session import insights, steps
from handoffd.session.state import DROPPED_MAX, Dropped, Failure, SessionState, Value
from handoffd.session.statements import statements
from handoffd.session.text import weight, words_of
from handoffd.session.work import activity

OPEN, RULE, RED, FAILED = "open", "rule", "red", "failed"
# An item with fewer words of meaning is found anywhere by chance, or nowhere.
WEIGHT_MIN = 2
MENTIONED_SHARE = 0.5
# A mention may take so many sentences or lines.
PASSAGE = 3
READ_MAX = 64 << 10
# A command that failed so often did not fail by chance.
FAILED_MIN, SHORT = 2, 40
_SENTENCE_END = re.compile(r"(?<=[.!?。！？])\s+|\n+")
# Words with another ending are the same word.
_STEM = 5


def compare(state: SessionState, summary: str) -> list[Dropped]:
    """Return the items of a session that a summary of it does not mention, the weightiest first."""
    passages = _passages(summary)
    found: list[Dropped] = []
    for item in _held(state):
        known = any(item.value.text == other.value.text for other in found)
        if weight(item.value.text) >= WEIGHT_MIN and not known and not _is_in(item, passages):
            found.append(item)
    return found[:DROPPED_MAX]


def note_mention(state: SessionState, text: str) -> None:
    """Take the items off the list that a request or an answer mentions."""
    if state.dropped:
        passages = _passages(text)
        state.dropped = [item for item in state.dropped if not _is_in(item, passages)]


def unsettled(state: SessionState) -> list[Dropped]:
    """Return the items on the list that are still true: a test may be green again."""
    true = [f"{check.command}: red" for check in state.checks if not check.green]
    true += [f"{failure.command} failed" for failure in state.failures]
    return [
        item
        for item in state.dropped
        if item.kind in (OPEN, RULE) or item.value.text.startswith(tuple(true))
    ]


def _held(state: SessionState) -> Iterator[Dropped]:
    """Yield the rules, the open items, the red tests and the failed commands of a session."""
    for value in state.rules:
        yield Dropped(RULE, value)
    for value in _items(state):
        yield Dropped(OPEN, value)
    yield from _red(state)
    yield from _failed([item for item in state.failures if _is_telling(state, item)])


def _items(state: SessionState) -> Iterator[Value]:
    """Yield the open items, without those that a summary always has or replaces.

    It has the step that was just announced. It replaces the pending work of the summary before it.
    """
    passing = {step.value.text for step in state.steps if step.group == steps.SUMMARY}
    passing |= {said.intention for said in statements(state)}
    done = activity(state)
    for value in insights.upcoming(state):
        text = value.text.removesuffix(f" ({done.text})") if done else value.text
        for rule in state.rules:  # it is an item of its own
            text = text.replace(rule.text, "").strip()
        if text not in passing and not text.startswith(insights.FIX):
            yield Value(text, value.receipt)


def _red(state: SessionState) -> Iterator[Dropped]:
    for check in state.checks:
        if not check.green:
            yield Dropped(RED, Value(f"{check.command}: red, {check.summary}", check.receipt))


def _is_telling(state: SessionState, item: Failure) -> bool:
    """Return True for a command that failed again and again, or now; no experiment, no test.

    A long command that failed once was an experiment, and tests have results of their own.
    """
    asked = state.last_prompt.receipt.offset if state.last_prompt else -1
    now = len(item.command) <= SHORT and item.error.receipt.offset > asked
    return (now or item.count >= FAILED_MIN) and not is_test_command(item.command)


def _failed(failures: list[Failure]) -> Iterator[Dropped]:
    for item in reversed(failures):
        yield Dropped(FAILED, Value(_told(item), item.error.receipt))


def _told(item: Failure) -> str:
    times = f" {item.count} times" if item.count > 1 else ""
    return f"{item.command} failed{times}: {item.error.text}".rstrip(": ")


def _passages(text: str) -> list[set[str]]:
    """Return the words of each few sentences that follow one another."""
    parts = [_stems(part) for part in _SENTENCE_END.split(text[:READ_MAX])]
    count = max(1, len(parts) - PASSAGE + 1)
    return [set().union(*parts[at : at + PASSAGE]) for at in range(count)]


def _is_in(item: Dropped, passages: list[set[str]]) -> bool:
    stems = _stems(item.value.text)
    return any(len(stems & passage) >= MENTIONED_SHARE * len(stems) for passage in passages)


def _stems(text: str) -> set[str]:
    """Return the words of a text without their endings.

    Scripts without spaces are compared by pairs of characters.
    """
    found = set()
    for word in words_of(text):
        if word.isascii():
            found.add(word[:_STEM])
        else:
            found |= {word[at : at + 2] for at in range(len(word) - 1)}
    return found
