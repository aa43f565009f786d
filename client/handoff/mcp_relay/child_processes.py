"""The processes that a relay starts: one starts the daemon, and one answers without it."""

import posix
import sys

from handoff.common import paths

TYPE_CHECKING = False
if TYPE_CHECKING:
    import _socket
    from collections.abc import Sequence

_ERROR_TEXT_MAX = 400


class Child:
    """A child process; `handle` is the pipe with its error output."""

    __slots__ = ("_error_output", "failed", "handle", "pid")

    def __init__(self, pid: int, handle: int = -1) -> None:
        self.pid = pid
        self.handle = handle
        self.failed = False
        self._error_output = b""

    @property
    def error_text(self) -> str:
        """The error output, as one line."""
        text = self._error_output[:_ERROR_TEXT_MAX].decode("utf-8", "replace")
        return " ".join(text.removeprefix("handoff: ").split())

    def is_done(self) -> bool:
        """Read the error output; at its end set `failed` and return True."""
        data = posix.read(self.handle, 4096)
        self._error_output += data[:_ERROR_TEXT_MAX]
        if data:
            return False
        posix.close(self.handle)
        self.failed = posix.waitpid(self.pid, 0)[1] != 0
        return True

    def end(self) -> None:
        """Kill the process, and wait for its end."""
        posix.kill(self.pid, 9)
        posix.waitpid(self.pid, 0)


def start_daemon() -> "Child | None":
    """Start the daemon as `handoff up` does; return None while another relay starts it."""
    lock = _lock()
    if lock is None:
        return None
    reading, writing = posix.pipe()
    actions = [
        (posix.POSIX_SPAWN_OPEN, 0, "/dev/null", posix.O_RDONLY, 0),
        (posix.POSIX_SPAWN_OPEN, 1, "/dev/null", posix.O_WRONLY, 0),
        (posix.POSIX_SPAWN_DUP2, writing, 2),
    ]
    try:
        return Child(_spawn(["up"], actions), reading)
    except OSError:
        posix.close(reading)
        raise
    finally:
        posix.close(writing)
        if lock >= 0:
            posix.close(lock)


def start_offline_answerer(client: str) -> "tuple[Child, _socket.socket]":
    """Start a process that answers from core.db, with a socket for its stdin and stdout."""
    import _socket

    ours, its = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        actions = [(posix.POSIX_SPAWN_DUP2, its.fileno(), handle) for handle in (0, 1)]
        child = Child(_spawn(["mcp", "--client", client, "--from-disk"], actions))
    except OSError:
        ours.close()
        raise
    finally:
        its.close()
    return child, ours


def _spawn(words: list[str], actions: "Sequence[tuple[object, ...]]") -> int:
    """Start `handoff` in a process group of its own: a signal to our group is not meant for it."""
    environment = {k: v for k, v in posix.environ.items() if not k.startswith(b"PYTHON")}
    command = [sys.executable, "-P", "-m", "handoff", *words]
    return posix.posix_spawn(
        sys.executable, command, environment, file_actions=actions, setpgroup=0
    )


def _lock() -> int | None:
    """Return the lock that the starting process keeps, or None if another process has it.

    Without the lock, all relays of a user would start a daemon at the same moment. The result is
    -1 if the lock cannot be opened.
    """
    import fcntl

    flags = posix.O_RDWR | posix.O_CREAT | posix.O_NOFOLLOW | posix.O_CLOEXEC
    try:
        handle = posix.open(f"{paths.state_dir()}/relay.lock", flags, 0o600)
    except (OSError, KeyError):
        return -1  # the starting process reports why
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        posix.close(handle)
        return None
    posix.set_inheritable(handle, True)
    return handle
