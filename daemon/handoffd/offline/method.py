"""A method that is done without a daemon: its parameters, the store it uses, its result.

Apart from what does it, so that a thread is opened without loading all that a handoff takes.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pydantic import ValidationError

from handoff.common.errors import EXIT_USAGE, HandoffError
from handoffd.api.method import Method, explain
from handoffd.runtime.directories import make_state_dir
from handoffd.store.core import CoreStore


def read_params(method: Method, params: dict[str, Any]) -> Any:
    try:
        return method.params.model_validate(params)
    except ValidationError as problem:
        refused = HandoffError(explain(method.name, problem))
        refused.exit_code = EXIT_USAGE
        raise refused from None


@contextmanager
def open_core() -> Iterator[CoreStore]:
    """Open what the daemon keeps, for as long as it does not run."""
    core = CoreStore(f"{make_state_dir()}/core.db")
    try:
        yield core
    finally:
        core.close()
