"""Scripted transcripts and their expected checkpoints, folded without a daemon, disk or clock."""

from pathlib import Path

import pytest

from handoffd.agents.claude_code.records import parse_line
from handoffd.checkpoint import checkpoint_format
from handoffd.projects.lanes import Lane, compose
from scenes import PROJECTS, SCENES
from scripted_session import ROOT, folded, view

HERE = Path(__file__).parent
DATA = {path.stem: path.read_bytes() for path in sorted(HERE.glob("*.jsonl"))}
DATA |= {name: scene().data for name, scene in SCENES.items()}


@pytest.mark.parametrize("name", DATA)
def test_golden(name):
    """The transcript gives exactly the checkpoint beside it, and each value has a receipt.

    The receipt names the byte at which the record of the value starts.
    """
    found = view(folded(DATA[name], name))

    assert (HERE / f"{name}.yaml").read_text() == checkpoint_format.render(found.document)
    for field, receipt in found.receipts.items():
        line = DATA[name][receipt.offset :].split(b"\n", 1)[0]
        assert receipt.uuid == parse_line(0, line).records[0].uuid, field
        assert receipt.evidence in ("observed", "quoted", "inferred")
    stated = {
        name for name in ("goal", "now", "status") if not str(found.document[name]).startswith("(")
    }
    assert stated <= set(found.receipts) | {"status"}


@pytest.mark.parametrize("name", PROJECTS)
def test_projects(name):
    """The sessions of a project give exactly the checkpoint beside them."""
    lanes = [Lane(told.folded(), idle, ended=ended) for told, idle, ended in PROJECTS[name]()]
    found = compose(ROOT, lanes, {}, None, [])

    assert (HERE / f"{name}.yaml").read_text() == checkpoint_format.render(found.document)


def test_every_checkpoint_has_its_transcript():
    """Every expected checkpoint has a transcript."""
    assert {path.stem for path in HERE.glob("*.yaml")} == set(DATA) | set(PROJECTS)
