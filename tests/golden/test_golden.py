"""Scripted transcripts and the checkpoint each must give: folded without a daemon, a disk or a clock."""

from pathlib import Path

import pytest

from handoffd.handoffs import checkpoint
from handoffd.handoffs.lanes import Lane, compose
from handoffd.session.fold import fold, is_repeated
from handoffd.session.state import SessionState
from handoffd.transcript.events import events
from handoffd.transcript.records import parse_line

HERE = Path(__file__).parent
TRANSCRIPTS = sorted(HERE.glob("*.jsonl"))


def folded(path: Path) -> SessionState:
    state = SessionState(path.stem)
    offset = 0
    for line in path.read_bytes().split(b"\n")[:-1]:
        for record in parse_line(offset, line).records:
            if not is_repeated(state, record):
                for event in events(record):
                    fold(state, event, path.stem)
        offset += len(line) + 1
    return state


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_golden(path):
    """The transcript gives the checkpoint beside it, to the letter."""
    document = compose("/home/ann/shop", [Lane(folded(path), 0.0)], {}, None, []).document

    assert path.with_suffix(".yaml").read_text() == checkpoint.render(document)


def test_every_value_has_a_receipt_that_leads_to_its_record():
    """The receipt of a value names the byte at which its record starts."""
    for path in TRANSCRIPTS:
        state = folded(path)
        data = path.read_bytes()
        values = [v for v in (state.goal, state.now, state.status, state.last_prompt) if v]
        for value in [*values, *state.files]:
            line = data[value.receipt.offset :].split(b"\n", 1)[0]
            record = parse_line(0, line).records[0]
            assert value.receipt.uuid == record.text("uuid"), (path.name, value)
