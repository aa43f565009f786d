"""One daemon a user: a lock that the kernel drops with the process, and not a moment earlier."""

import errno
import fcntl
import os

from handoff.common.errors import AlreadyRunningError

_held = -1


def lock_instance(path: str) -> int:
    """Take the lock for as long as it is open; the file names the process for others."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(handle, 0)
        os.write(handle, f"{os.getpid()}\n".encode())
    except BlockingIOError:
        pid = os.read(handle, 32).decode("ascii", "replace").strip()
        os.close(handle)
        raise AlreadyRunningError(
            f"handoffd is already running (process {pid or 'unknown'}).",
            "See it with: handoff status",
        ) from None
    except OSError:
        os.close(handle)  # or it would keep ourselves out the next time
        raise
    return handle


def hold(path: str) -> None:
    """Keep the lock for as long as we live.

    Asked again, take it anew where the file was deleted, or its directory replaced: the one that
    we hold keeps nobody out any more. Another daemon may have been quicker: then that one stays.
    """
    global _held  # a process has one
    if not _is_held(path):
        old, _held = _held, lock_instance(path)
        if old >= 0:
            os.close(old)


def _is_held(path: str) -> bool:
    try:
        return _held >= 0 and os.path.samestat(os.fstat(_held), os.lstat(path))
    except OSError as problem:
        if problem.errno in (errno.ENOENT, errno.ESTALE):
            return False
        raise
