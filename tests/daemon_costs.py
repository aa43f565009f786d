"""The costs of a daemon under load: its memory, and the waiting time of its clients."""

import contextlib
import json
import socket
import threading
import time
from pathlib import Path
from typing import Self

from conftest import DaemonSandbox


def kilobytes(pid: int, name: str) -> int:
    """Return a field of /proc/PID/status: VmRSS is resident now, VmHWM was the most."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


def megabytes(pid: int, name: str = "VmRSS") -> float:
    return kilobytes(pid, name) / 1024


def forget_the_most(pid: int) -> None:
    """Let VmHWM begin anew."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def processor_seconds(pid: int) -> float:
    found = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # the thread is over
            found += int((task / "schedstat").read_text().split()[0])
    return found / 1e9


def threads(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/task").iterdir()))


def handles(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def milliseconds(values: list[float], share: float) -> int:
    """Return the smallest time that this share of them does not exceed."""
    ordered = sorted(values)
    return round(1000 * ordered[min(int(len(ordered) * share), len(ordered) - 1)])


class Asking:
    """Sends the same request again and again beside a load, and keeps the time of each answer."""

    def __init__(self, sandbox: DaemonSandbox, method: str = "status", **params):
        self.seconds: list[float] = []
        frame = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        self._frame = json.dumps(frame).encode() + b"\n"
        self._path = sandbox.socket_path
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._ask)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_) -> None:
        self._over.set()
        self._thread.join()

    def _ask(self) -> None:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(60)
            connection.connect(self._path)
            with connection.makefile("rb") as stream:
                while not self._over.wait(0.02):
                    began = time.monotonic()
                    connection.sendall(self._frame)
                    assert b'"result"' in stream.readline()
                    self.seconds.append(time.monotonic() - began)

    def told(self) -> str:
        return (
            f"answers p50 {milliseconds(self.seconds, 0.5)} ms, "
            f"p99 {milliseconds(self.seconds, 0.99)} ms"
        )
