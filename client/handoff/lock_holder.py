"""The process that holds the daemon's lock: a daemon runs, even if it cannot be reached."""

import fcntl
import os

from handoff.common import paths
from handoff.common.errors import NOT_RUNNING


def lock_holder() -> int | None:
    """Return the id of the process that holds the daemon's lock, whether it answers or not."""
    try:
        handle = os.open(f"{paths.state_dir()}/handoffd.lock", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        text = os.read(handle, 32).decode("ascii", "replace").strip()
        # The check takes the lock for a moment, in which a daemon that starts would not get it. So
        # the lock is left alone if the process that it names is gone.
        if not text.isdigit() or not _is_alive(int(text)):
            return None
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return int(text)
    except OSError:
        return None  # a directory, for example: the start of the daemon reports it
    finally:
        os.close(handle)
    return None


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass  # the process belongs to another user
    return True


def unreachable_message(reason: str) -> tuple[str, str]:
    """Return the message and the remedy if no daemon is reached, for the given reason or none."""
    pid = None if reason else lock_holder()
    if pid is None:
        return reason or NOT_RUNNING, "Start it with: handoff up"
    why = "its socket was deleted and is there again within 30 s, or it listens elsewhere"
    title = f"handoffd runs (process {pid}), but cannot be asked just now: {why}."
    return title, "Wait a moment; if it stays so, run: handoff restart"
