"""The tiers of the tests: `make test`, the rest in `make test-all`, and the long ones."""

import re

from conftest import REPOSITORY

# These tests need root, or they test behaviour outside the usual path.
WITHOUT_A_QUICK_PATH = {"test_other_user.py", "test_systemd.py", "test_track_safety.py"}


def test_every_capability_has_a_quick_path():
    """Each file of tests/integration has a test that `make test` runs."""
    files = (REPOSITORY / "tests/integration").glob("test_*.py")
    without = {path.name for path in files if "pytest.mark.quick" not in path.read_text()}

    assert WITHOUT_A_QUICK_PATH == without


def test_no_test_is_in_two_tiers_or_in_none():
    """`make test-all` is two runs of pytest, and each test that is not long is in one of them."""
    text = (REPOSITORY / "Makefile").read_text()
    runs = dict(re.findall(r'(?m)^(test|test-rest):.*\n\t.* -m "([^"]+)"$', text))

    assert {"test": "not slow and not long", "test-rest": "slow and not long"} == runs
    assert re.search(r"(?m)^test-all: test test-rest$", text)
