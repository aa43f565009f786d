"""The same client on the stdin and stdout of `handoff mcp`, and a daemon that only pretends."""

import contextlib
import fcntl
import itertools
import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

from conftest import BIN, DaemonSandbox, wait_for
from mcp_socket_client import Mcp

# Of a relay to which a slow machine makes no difference.
PATIENT = {
    f"{name}_SECONDS": 300.0 for name in ("GREETING", "PATIENCE", "ANSWER", "CHILD", "TOTAL")
}


class Relayed(Mcp):
    """A client of a relay, which is a process of its own.

    limits are the relay's, by name; before is Python that it runs first.
    """

    def __init__(
        self,
        sandbox: DaemonSandbox,
        *words: str,
        env: Any = None,
        limits: Any = None,
        before="",
        **popen,
    ):
        self._ids = itertools.count(1)
        self._errors = (sandbox.home / f"relay-{os.urandom(4).hex()}.stderr").open("w+b")
        command = [str(BIN / "handoff"), "mcp", *words]
        if limits or before:
            settings = [f"relay.{name} = {value}" for name, value in (limits or {}).items()]
            client = words[-1].removeprefix("--client=") if words else "chat"
            text = [
                before,
                "from handoff.mcp_relay import relay",
                *settings,
                f"relay.run({client!r})",
            ]
            command = [sys.executable, "-P", "-c", "\n".join(text)]
        environment = {**sandbox.environment, **(env or {})}
        self.process = subprocess.Popen(
            command,
            **{"cwd": sandbox.home, "stdin": subprocess.PIPE, "stdout": subprocess.PIPE, **popen},
            env={name: value for name, value in environment.items() if value is not None},
            stderr=self._errors,
        )

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()
        self._errors.close()

    def write(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def send(self, frame: Any) -> None:
        self.write((frame if isinstance(frame, bytes) else json.dumps(frame).encode()) + b"\n")

    def receive_line(self) -> bytes:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def finish(self) -> tuple[int, list[dict]]:
        """Close stdin; return the exit code and the replies until then."""
        out, _ = self.process.communicate(timeout=60)
        return self.process.returncode, [json.loads(line) for line in out.splitlines()]

    def unread(self) -> int:
        """Return the number of bytes in its stdout, which holds no more than 64 KiB."""
        assert self.process.stdout is not None
        size = fcntl.ioctl(self.process.stdout, termios.FIONREAD, bytes(4))
        return int.from_bytes(size, sys.byteorder)

    def rest(self) -> None:
        """Wait until the relay does nothing any more."""
        pid = self.process.pid
        looks: list[str] = []

        def look() -> bool:
            looks.append(Path(f"/proc/{pid}/status").read_text().partition("\nvoluntary_")[2])
            return len(looks) > 25 and len(set(looks[-25:])) == 1

        wait_for(look, 60, "the relay rests")

    @property
    def stderr(self) -> str:
        self._errors.seek(0)
        return self._errors.read().decode()

    def children(self) -> list[int]:
        """Return the processes that it has started and that still run."""
        pid = self.process.pid
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def holder(sandbox: DaemonSandbox, name: str = "handoffd.lock") -> int:
    """Return the process that holds a lock, 1 if it is unknown, or 0."""
    try:
        handle = os.open(sandbox.state / name, os.O_RDWR)
    except OSError:
        return 0
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return int(os.read(handle, 32) or b"1")
    finally:
        os.close(handle)
    return 0


def kill_daemon(sandbox: DaemonSandbox) -> int:
    """Kill the daemon that runs here; return its process id."""
    pid = holder(sandbox)
    if pid > 1:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        wait_for(lambda: holder(sandbox) != pid, what="the daemon is gone")
    return pid


def clear(sandbox: DaemonSandbox) -> None:
    """End all processes that relays have started, also those that are only starting."""

    def ended() -> bool:
        found = _processes(sandbox)
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return not found

    wait_for(ended, what="nothing runs here any more")


def _processes(sandbox: DaemonSandbox) -> list[int]:
    """Return the processes of this HOME; its runtime directory is in no other environment."""
    mark, found = f"XDG_RUNTIME_DIR={sandbox.runtime}\0".encode(), []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if mark in path.read_bytes():
                found.append(int(path.parent.name))
    return found


class Pretender:
    """Listens in the daemon's place, keeps the requests, and answers as a test wants."""

    def __init__(self, path: str, greeting: dict):
        self.frames: list[dict] = []
        # The number of requests that it takes before it hangs up in the middle of its answer.
        self.patience: list[int] = []
        # Members of its answers, in place of its usual ones.
        self.reply: dict = {}
        self.connections = 0
        self._greeting = greeting
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(path)
        self._listener.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()

    def named(self, method: str) -> list[dict]:
        return [frame for frame in list(self.frames) if frame["method"] == method]

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection = self._listener.accept()[0]
                threading.Thread(target=self._serve, args=[connection], daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        left = self.patience.pop(0) if self.patience else 1 << 30
        self.connections += 1
        with connection, connection.makefile("rb") as lines:
            self._converse(connection, lines, left)
        self.connections -= 1

    def _converse(self, connection: socket.socket, lines: Any, left: int) -> None:
        with contextlib.suppress(OSError):
            for line in lines:
                frame = json.loads(line)
                self.frames.append(frame)
                if frame["method"] == "mcp":
                    reply = self._greeting
                else:
                    reply = self.reply or {"result": {"said": frame["method"]}}
                    left -= 1
                whole = {"jsonrpc": "2.0", "id": frame["id"], **reply}
                text = json.dumps(whole, separators=(",", ":")) + "\n"
                if left < 0:
                    connection.sendall(text.encode()[:20])
                    return
                connection.sendall(text.encode())


@contextlib.contextmanager
def hanging(sandbox: DaemonSandbox) -> Iterator[None]:
    """Let the daemon hang, but not during a write: its lock would block every other writer."""
    assert sandbox.process is not None
    pid = sandbox.process.pid

    def is_stopped() -> bool:
        os.kill(pid, signal.SIGSTOP)
        stat = Path(f"/proc/{pid}/stat")
        wait_for(lambda: stat.read_text().rpartition(")")[2].split()[0] == "T")
        database = sqlite3.connect(sandbox.state / "core.db", timeout=0, isolation_level=None)
        with contextlib.closing(database):
            try:
                database.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:
                os.kill(pid, signal.SIGCONT)
                return False
            return True

    wait_for(is_stopped, 60, "the daemon hangs")
    with stopped(pid):
        yield


@contextlib.contextmanager
def stopped(pid: int) -> Iterator[None]:
    """Let a process hang."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
