"""One daemon per user: a lock that the kernel releases when the process ends, not earlier."""

import errno
import fcntl
import os

from handoff.common.errors import AlreadyRunningError

_held = -1


def lock_instance(path: str) -> int:
    """Take the lock and return its descriptor; the lock is held until the descriptor is closed.

    The process id is written to the file, so that another daemon can name the holder.
    """
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
        os.close(handle)  # otherwise it would lock ourselves out the next time
        raise
    return handle


def hold(path: str) -> None:
    """Take the lock and keep it until this process ends.

    A later call takes it anew if the file was deleted or its directory was replaced, since the old
    lock no longer excludes other daemons. If another daemon has taken the new lock, that one stays.
    """
    global _held  # one per process
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
