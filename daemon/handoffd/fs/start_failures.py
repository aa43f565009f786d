"""Why daemons ended without being told to: for `handoff doctor`, and to end a crash loop."""

import contextlib
import os
from collections.abc import Iterator

from handoff.common.errors import HandoffError
from handoffd.fs import files
from handoffd.runtime import clock, log

# The client reads it: handoff/service.py.
NAME = "failures"
RUNNING = "running"
KEPT = 8
LOOP_STARTS = 4
LOOP_SECONDS = 60.0
_MAX_BYTES = 1 << 14


@contextlib.contextmanager
def noted(directory: str) -> Iterator[None]:
    """Note why we end, unless we were told to; and that one before us was killed."""
    with files.directory(directory) as handle:
        files.sweep(handle)
        if (died := _read(handle, RUNNING)) is not None:
            _note(handle, f"process {died.strip()} was killed, or ended without a word")
        _write(handle, RUNNING, f"{os.getpid()}\n")
    why = ""
    try:
        yield
    except BaseException as problem:
        why = problem.title if isinstance(problem, HandoffError) else _what(problem)
        raise
    finally:
        # Without its directory there is nobody to tell, and the reason must not be hidden by that.
        with contextlib.suppress(OSError), files.directory(directory) as handle:
            if why:
                _note(handle, why)
            files.remove(handle, RUNNING)
            if not why:
                files.remove(handle, NAME)


def loop(directory: str) -> str:
    """Return why daemons end one after the other, if they do; else nothing."""
    with files.directory(directory) as handle:
        lines = (_read(handle, NAME) or "").splitlines()
    since = clock.wall() - LOOP_SECONDS
    late = [line for line in lines if clock.parse(line.partition(" ")[0]) > since]
    return late[-1].partition(" ")[2] if len(late) >= LOOP_STARTS else ""


def _what(problem: BaseException) -> str:
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
    # What hinders this is likely what ends us; that is said on stderr, too.
    with contextlib.suppress(OSError, HandoffError):
        files.write(handle, name, text.encode())
