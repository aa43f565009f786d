"""The reasons why daemons ended unasked: for `handoff doctor`, and to end a crash loop."""

import contextlib
import os
from collections.abc import Iterator

from handoff.common.errors import HandoffError
from handoffd.fs import files
from handoffd.runtime import clock, log

# The client reads this file: handoff/service.py.
NAME = "failures"
RUNNING = "running"
KEPT = 8
LOOP_STARTS = 4
LOOP_SECONDS = 60.0
_MAX_BYTES = 1 << 14


@contextlib.contextmanager
def noted(directory: str) -> Iterator[None]:
    """Record the reason if this daemon ends unasked, and note if the one before was killed."""
    with files.directory(directory) as handle:
        files.sweep(handle)
        if (died := _read(handle, RUNNING)) is not None:
            _note(handle, f"process {died.strip()} was killed, or ended without a word")
        _write(handle, RUNNING, f"{os.getpid()}\n")
    why = ""
    try:
        yield
    except BaseException as problem:
        why = problem.title if isinstance(problem, HandoffError) else _reason(problem)
        raise
    finally:
        # If the directory is gone, nothing can be recorded; that must not hide the first error.
        with contextlib.suppress(OSError), files.directory(directory) as handle:
            if why:
                _note(handle, why)
            files.remove(handle, RUNNING)
            if not why:
                files.remove(handle, NAME)


def loop(directory: str) -> str:
    """Return the last reason if daemons end one after the other, else an empty text."""
    with files.directory(directory) as handle:
        lines = (_read(handle, NAME) or "").splitlines()
    since = clock.wall() - LOOP_SECONDS
    late = [line for line in lines if clock.parse(line.partition(" ")[0]) > since]
    return late[-1].partition(" ")[2] if len(late) >= LOOP_STARTS else ""


def _reason(problem: BaseException) -> str:
    return str(problem) if isinstance(problem, OSError) else log.where(problem)


def _note(handle: int, why: str) -> None:
    lines = (_read(handle, NAME) or "").splitlines()[1 - KEPT :]
    _write(handle, NAME, "\n".join((*lines, f"{clock.iso()} {' '.join(why.split())}", "")))


def _read(handle: int, name: str) -> str | None:
    try:
        found = files.read(handle, name, _MAX_BYTES, cut=True)
    except (OSError, HandoffError):
        return None
    return None if found is None else found[0].decode("utf-8", "replace")


def _write(handle: int, name: str, text: str) -> None:
    # The cause of this failure is likely the reason why we end, and stderr shows it as well.
    with contextlib.suppress(OSError, HandoffError):
        files.write(handle, name, text.encode())
