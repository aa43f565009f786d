"""The same client on the stdin and stdout of `handoff mcp`, and a daemon that only pretends."""

import contextlib
import fcntl
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

from bridged import Mcp
from conftest import BIN, House, wait_for


class Relayed(Mcp):
    """A client of a relay, which is a process of its own; limits are its time limits, by name."""

    def __init__(self, house: House, *words: str, env: Any = None, limits: Any = None, **popen):
        self._ids = itertools.count(1)
        self._errors = (house.home / f"relay-{os.urandom(4).hex()}.stderr").open("w+b")
        command = [str(BIN / "handoff"), "mcp", *words]
        if limits:
            settings = "; ".join(f"relay.{name} = {value}" for name, value in limits.items())
            text = f"from handoff import relay; {settings}; relay.run('chat')"
            command = [sys.executable, "-P", "-c", text]
        environment = {**house.environment, **(env or {})}
        self.process = subprocess.Popen(
            command,
            **{"cwd": house.home, "stdin": subprocess.PIPE, "stdout": subprocess.PIPE, **popen},
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
        """Close stdin; returns the exit code and what came till then."""
        out, _ = self.process.communicate(timeout=60)
        return self.process.returncode, [json.loads(line) for line in out.splitlines()]

    @property
    def stderr(self) -> str:
        self._errors.seek(0)
        return self._errors.read().decode()

    def children(self) -> list[int]:
        """Return the processes that it has started and that still run."""
        pid = self.process.pid
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def holder(house: House, name: str = "handoffd.lock") -> int:
    """Return the process that holds a lock, 1 for one that does not say, or 0."""
    try:
        handle = os.open(house.state / name, os.O_RDWR)
    except OSError:
        return 0
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return int(os.read(handle, 32) or b"1")
    finally:
        os.close(handle)
    return 0


def kill_daemon(house: House) -> int:
    """End whichever daemon runs here, without a warning; returns the process it was."""
    pid = holder(house)
    if pid > 1:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        wait_for(lambda: holder(house) != pid, what="the daemon is gone")
    return pid


def clear(house: House) -> None:
    """End what relays have left running, when the last of them is gone."""
    wait_for(lambda: not holder(house, "relay.lock"), 30, "nobody is starting a daemon")
    kill_daemon(house)


class Pretender:
    """Listens where the daemon would, keeps what it is told, and answers as a test wants."""

    def __init__(self, path: str, greeting: dict):
        self.frames: list[dict] = []
        # How many requests it takes before it hangs up in the middle of its answer.
        self.patience: list[int] = []
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
        with connection, connection.makefile("rb") as lines:
            for line in lines:
                frame = json.loads(line)
                self.frames.append(frame)
                if frame["method"] == "mcp":
                    reply = self._greeting
                else:
                    reply = {"result": {"said": frame["method"]}}
                    left -= 1
                text = json.dumps({"jsonrpc": "2.0", "id": frame["id"], **reply}) + "\n"
                if left < 0:
                    connection.sendall(text.encode()[:20])
                    return
                connection.sendall(text.encode())


@contextlib.contextmanager
def stopped(pid: int) -> Iterator[None]:
    """Let a process hang."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
