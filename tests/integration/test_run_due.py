"""`run_due` lets tests wait without sleeping: it exists for them alone, and runs all due work."""

import pytest

from conftest import timestamp, wait_for
from written_handoffs import handoffs, work

pytestmark = pytest.mark.quick


@pytest.mark.parametrize("value", [None, "", "0", "yes"])
def test_the_method_exists_for_tests_alone(sandbox, value):
    """A daemon that was not started with HANDOFFD_TEST=1 does not know the method."""
    sandbox.environment.pop("HANDOFFD_TEST")
    if value is not None:
        sandbox.environment["HANDOFFD_TEST"] = value
    sandbox.start()
    error = sandbox.request("run_due")["error"]

    assert -32601 == error["code"]
    assert "run_due" not in error["message"].partition("methods:")[2]


def test_everything_due_is_done(live):
    """When `run_due` returns, new transcripts are read and files and handoffs are written."""
    project = live.project()
    work(live, project)
    live.run_due()

    assert "Round tax per line" in live.yaml(project)
    assert 1 == len(handoffs(live, project))
    session = live.session(project)
    session.prompt("Then round the shipping", timestamp=timestamp(-1))
    live.run_due()  # within the two seconds that a second write would wait
    assert "Then round the shipping" in live.yaml(project)


def test_a_project_that_cannot_be_written_holds_nothing_up(live):
    """`run_due` returns although one project's files cannot be written, and the others are."""
    broken, other = live.project("broken"), live.project("other")
    (broken / ".flow-guardian").symlink_to(live.home)
    live.session(broken).prompt("Work where nothing can be written")
    live.session(other).prompt("Work where all is well")
    live.run_due()

    assert "Work where all is well" in live.yaml(other)
    wait_for(lambda: "write_failed" in str(live.request("status")["result"]["warnings"]))
