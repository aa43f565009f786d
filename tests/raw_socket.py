"""The daemon's socket, byte by byte."""

import contextlib
import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from conftest import DaemonSandbox

STATUS = b'{"jsonrpc":"2.0","id":1,"method":"status"}\n'


def connected(sandbox: DaemonSandbox, seconds: float = 30.0) -> socket.socket:
    """Connect; a full backlog is EAGAIN on a Unix socket, and passes."""
    while True:
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(seconds)
        try:
            connection.connect(sandbox.socket_path)
        except BlockingIOError:
            connection.close()
            time.sleep(0.005)
        else:
            return connection


@contextlib.contextmanager
def opened(sandbox: DaemonSandbox) -> Iterator[tuple[socket.socket, Any]]:
    """A connection, and its lines."""
    with connected(sandbox) as connection, connection.makefile("rb") as lines:
        yield connection, lines


def send(connection: socket.socket, data: bytes) -> None:
    """Send all that the other side takes."""
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        connection.sendall(data)


def exchange(sandbox: DaemonSandbox, data: bytes) -> dict:
    """Send bytes on a connection of their own, and return the first answer; {} for none."""
    with opened(sandbox) as (connection, lines):
        send(connection, data)
        return answer(lines)


def answer(lines: Any) -> dict:
    """Return the next answer, which has to be JSON to the letter; {} at the end."""
    try:
        line = lines.readline()
    except ConnectionResetError:
        return {}
    return json.loads(line, parse_constant=_refuse) if line else {}


def _refuse(constant: str) -> Any:
    raise AssertionError(f"{constant} is no JSON")


def is_closed(connection: socket.socket) -> bool:
    """Return True if the other side has hung up; its bytes are read."""
    connection.setblocking(False)
    try:
        while connection.recv(1 << 16):
            pass
    except BlockingIOError:
        return False
    except ConnectionResetError:
        return True
    return True


def resident_kib(sandbox: DaemonSandbox) -> int:
    assert sandbox.process is not None
    status = Path(f"/proc/{sandbox.process.pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0])


def descriptors(sandbox: DaemonSandbox) -> int:
    assert sandbox.process is not None
    return len(list(Path(f"/proc/{sandbox.process.pid}/fd").iterdir()))
