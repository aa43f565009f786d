"""Fixtures of the tests with real programs: a scripted model, Claude Code, the relay."""

import itertools
from collections.abc import Iterator

import pytest

from conftest import DaemonSandbox
from e2e.claude import OLDER, VERSIONS, Claude, program
from e2e.model import Model

_NUMBERS = itertools.count(1)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave the older client to `make e2e`, except for the tests that it works with us at all."""
    for item in items:
        callspec = getattr(item, "callspec", None)
        older = callspec and callspec.params.get("version") == OLDER
        if older and not item.get_closest_marker("both"):
            item.add_marker(pytest.mark.long)


@pytest.fixture
def model() -> Iterator[Model]:
    """A model with an empty script."""
    found = Model()
    yield found
    found.close()


@pytest.fixture(params=VERSIONS)
def version(request) -> str:
    """The version of Claude Code, which must be there before anything is started for it."""
    program(f"HANDOFFD_TEST_CLAUDE_{request.param}")
    return request.param


@pytest.fixture
def claude(version: str, live: DaemonSandbox, model: Model) -> Claude:
    """Claude Code in a project, in a HOME with a running daemon."""
    return Claude(version, live, model, live.project())


@pytest.fixture
def hooked(version: str, served: DaemonSandbox, model: Model) -> Claude:
    """Claude Code with our hooks, in a project of its own; the daemon is the file's."""
    claude = Claude(version, served, model, served.project(f"shop{next(_NUMBERS)}"))
    # A setting that another test has switched off is on again.
    (claude.config / "settings.json").unlink(missing_ok=True)
    claude.hook()
    return claude
