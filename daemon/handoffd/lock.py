"""One daemon a user: a lock that the kernel drops with the process, and not a moment earlier."""

import fcntl
import os

from handoff.errors import AlreadyRunningError


def lock_instance(path: str) -> int:
    """Take the lock for as long as it is open; the file names the process for others."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        pid = os.read(handle, 32).decode("ascii", "replace").strip()
        os.close(handle)
        raise AlreadyRunningError(
            f"handoffd is already running (process {pid or 'unknown'}).",
            "See it with: handoff status",
        ) from None
    os.ftruncate(handle, 0)
    os.write(handle, f"{os.getpid()}\n".encode())
    return handle
