"""The path from a growing transcript to handoff.yaml and the client, with a real daemon."""

import pytest

from conftest import wait_for

pytestmark = pytest.mark.quick


def test_transcript_becomes_checkpoint(live):
    """A prompt, a statement and an edit show in handoff.yaml and on the socket."""
    project = live.project()
    session = live.session(project)
    session.prompt("Add a discount code field to the checkout page")
    session.say("I look at the form first. Then I edit it.")
    session.edit(f"{project}/src/checkout.py")

    wait_for(lambda: "src/checkout.py" in live.yaml(project))
    document = live.document(project)

    assert document["goal"] == "Add a discount code field to the checkout page"
    assert document["now"] == "I look at the form first. Then I edit it. (Writing checkout.py)"
    assert document["files"] == ["src/checkout.py"]
    assert document["branch"] == "main"
    assert session.id == document["session_id"]
    assert "goal: Add a discount code field" in live.yaml(project)
