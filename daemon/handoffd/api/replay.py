"""Fold transcripts offline, with the daemon's own code, but without a daemon, a store or a clock.

This is also the debugger: it shows the state after any record, and the history of a value.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from handoff.common.plain_text import PlainText, plain, plain_json
from handoffd.agents.agent import Agent, Record
from handoffd.agents.registry import agent_of
from handoffd.contract import contract_format
from handoffd.contract.composition import Surroundings, account, is_worth
from handoffd.ingest.tailer import Tail
from handoffd.projects.lanes import Lane, ProjectView, compose, describe
from handoffd.session.fold import fold
from handoffd.session.state import SessionState
from handoffd.store.cursor import Cursor

# A type of records, and how they are treated.
Count = tuple[str, str]
SKIPPED = "skipped"
_DATE = len("2026-03-01")


class TraceStep(NamedTuple):
    """The change of a value by one record."""

    record: int
    before: Any
    after: Any
    receipt: dict[str, Any] | None


def records(path: Path, counts: Counter[Count]) -> Iterator[Record]:
    """Yield the records of a transcript, even if its last line has no newline."""
    tail, agent = Tail(Cursor(path.stem, path.stem, str(path))), agent_of(str(path))
    while True:
        taken = tail.read()
        counts["(lines over 8 MB)", SKIPPED] += taken.oversized
        for offset, line in taken.lines:
            yield from _parsed(agent, offset, line, counts)
        if not taken.more:
            break
    yield from _parsed(agent, tail.cursor.offset, tail.unfinished, counts)


def _parsed(agent: Agent, offset: int, line: bytes, counts: Counter[Count]) -> Iterator[Record]:
    parsed = agent.decode(offset, line)
    counts["(damaged lines)", "skipped where nothing could be read"] += parsed.damaged
    yield from parsed.records


def replay(
    path: Path, at: int | None = None, trace: str = "", counts: Counter[Count] | None = None
) -> tuple[SessionState, list[TraceStep]]:
    """Return the state after a number of records, and the changes of one value up to there."""
    agent = agent_of(str(path))
    found = agent.transcript_at(str(path))
    name = found.name if found else path.stem
    state = SessionState(found.session_id if found else name)
    steps: list[TraceStep] = []
    before: Any = None
    counts = Counter() if counts is None else counts
    for number, record in enumerate(records(path, counts), 1):
        if at is not None and number > at:
            break
        taken = fold(state, record, name)
        treatment = agent.treatment(record) if taken else "a copy, counted once"
        counts[record.type[:40] or "(no type)", treatment] += 1
        if trace:
            view = _view(state)
            after = view.document.get(trace)
            if after != before:
                steps.append(_step(number, before, after, view, trace))
                before = after
    return state, steps


def render_counts(paths: Sequence[Path]) -> str:
    """Return a table with the number of records of each type, and their treatment."""
    counts: Counter[Count] = Counter()
    for path in paths:
        replay(path, counts=counts)
    rows = [(str(number), *kind) for kind, number in counts.most_common() if number]
    table = [("RECORDS", "TYPE", "WHAT BECOMES OF THEM"), *rows]
    return "".join(f"{number:>8}  {kind:24}{what}\n" for number, kind, what in table)


def _view(state: SessionState) -> ProjectView:
    return compose(state.cwd, [Lane(state, 0.0)], {}, None, [])


def _step(number: int, before: Any, after: Any, view: ProjectView, name: str) -> TraceStep:
    receipt = view.receipts.get(name) or view.receipts.get(f"{name}.0")
    return TraceStep(number, before, after, receipt._asdict() if receipt else None)


def document(state: SessionState) -> dict[str, Any]:
    """Return the document of handoff.yaml for this session alone, and all other known facts."""
    view = _view(state)
    receipts = {name: receipt._asdict() for name, receipt in view.receipts.items()}
    known = {name: value for name, value in describe(state).items() if name not in view.document}
    return {**view.document, **known, "receipts": receipts}


def render(path: Path, *, as_json: bool, at: int | None, trace: str) -> str:
    """Return a transcript's state, or the history of one value, as text or JSON."""
    state, steps = replay(path, at, trace)
    if trace:
        lines = [plain_json(step._asdict(), indent=None) for step in steps]
        return PlainText("\n".join([*lines, ""])) if lines else f"{trace} was never set.\n"
    found = document(state)
    if as_json:
        return PlainText(plain_json(found) + "\n")
    rows = [
        f"{name:19}{_shown(value)}" for name, value in found.items() if value and name != "receipts"
    ]
    return "\n".join([str(path), "", *rows, ""])


def render_contract(path: Path, at: int | None) -> str:
    """Return the handoff that a transcript would leave if its session ended here."""
    state, _ = replay(path, at)
    if not is_worth(state):
        return f"{path}: no edit, no commit, no second request: it leaves no handoff.\n"
    surroundings = Surroundings(state.last_time[:_DATE], ended=True)
    return plain(contract_format.render(account(state, state.cwd, surroundings)), calls=True)


def _shown(value: Any) -> str:
    """Return a list as text, with one item per line."""
    items = value if isinstance(value, list) else [value]
    return f"\n{'':19}".join(map(str, items))
