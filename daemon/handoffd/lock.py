"""One daemon a user: a lock that the kernel drops with the process."""

import fcntl
import os

from handoff.errors import AlreadyRunningError


class InstanceLock:
    """Holds `<state>/handoffd.lock`; the file names the process for a person's eyes."""

    def __init__(self, path: str) -> None:
        self._handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pid = os.read(self._handle, 32).decode("ascii", "replace").strip()
            os.close(self._handle)
            raise AlreadyRunningError(
                f"handoffd is already running (process {pid or 'unknown'}).",
                "See it with: handoff status",
            ) from None
        os.ftruncate(self._handle, 0)
        os.write(self._handle, f"{os.getpid()}\n".encode())

    def release(self) -> None:
        os.close(self._handle)
