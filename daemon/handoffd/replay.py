"""Fold transcripts offline: the same road as the daemon's, without a daemon, a store or a clock.

It is also the debugger: it shows the state after any record, and how a value came about.
"""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from handoffd.handoffs.lanes import Lane, compose
from handoffd.session.fold import fold, is_repeated
from handoffd.session.state import SessionState, Value
from handoffd.sources.tailer import Tail
from handoffd.store.state import Cursor
from handoffd.transcript.events import events
from handoffd.transcript.records import Record, parse_line


@dataclass(frozen=True, slots=True)
class Step:
    """How one record changed a value."""

    record: int
    before: str | None
    after: str | None
    receipt: dict[str, Any] | None


def records(path: Path) -> Iterator[Record]:
    """Yield the records of a transcript, also of one without a final newline."""
    tail = Tail(Cursor(path.stem, path.stem, str(path)))
    while True:
        taken = tail.read()
        for offset, line in taken.lines:
            yield from parse_line(offset, line).records
        if not taken.more:
            break
    yield from parse_line(tail.cursor.offset, tail.unfinished).records


def replay(path: Path, at: int | None = None, trace: str = "") -> tuple[SessionState, list[Step]]:
    """Fold a transcript up to a record, noting how one value changed on the way."""
    state = SessionState(path.stem)
    steps: list[Step] = []
    before = _traced(state, trace)
    for number, record in enumerate(records(path), 1):
        if at is not None and number > at:
            break
        if not is_repeated(state, record):
            for event in events(record):
                fold(state, event, path.stem)
        after = _traced(state, trace)
        if after != before:
            steps.append(_step(number, before, after))
            before = after
    return state, steps


def _traced(state: SessionState, name: str) -> Value | None:
    value = getattr(state, name, None) if name else None
    return value if isinstance(value, Value) else None


def _step(number: int, before: Value | None, after: Value | None) -> Step:
    receipt = asdict(after.receipt) if after else None
    return Step(number, before.text if before else None, after.text if after else None, receipt)


def document(state: SessionState) -> dict[str, Any]:
    """Return what handoff.yaml would say of this session alone."""
    view = compose(state.cwd, [Lane(state, 0.0)], {}, None, [])
    receipts = {name: asdict(receipt) for name, receipt in view.receipts.items()}
    counters = {"records": state.records, "agent_records": state.agent_records}
    return {**view.document, **counters, "prompts": state.prompts, "receipts": receipts}


def render(path: Path, *, as_json: bool, at: int | None, trace: str) -> str:
    """Return a transcript's state, or the history of one value, as text or JSON."""
    state, steps = replay(path, at, trace)
    if trace:
        lines = [json.dumps(asdict(step), ensure_ascii=False) for step in steps]
        return "\n".join([*lines, ""]) if lines else f"{trace} was never set.\n"
    found = document(state)
    if as_json:
        return json.dumps(found, ensure_ascii=False, indent=2) + "\n"
    rows = [f"{name:14}{value}" for name, value in found.items() if value and name != "receipts"]
    return "\n".join([str(path), "", *rows, ""])
