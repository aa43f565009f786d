"""A temporary HOME with a real daemon in it."""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Self

from synthetic import Script

sys.path.append(str(Path(__file__).parent.parent / "tests"))
from proc import memory_bytes  # tests and benchmarks share these measurements

BIN = Path(sys.executable).parent
PYTHON = str(BIN / "python")
SETTLE_SECONDS = 180.0


def directory_for(*, in_memory: bool) -> str:
    """Return where a HOME goes: on disk, because fsync costs nothing in memory, or there."""
    wanted = "/dev/shm" if in_memory else "/var/tmp"
    return wanted if os.access(wanted, os.W_OK) else tempfile.gettempdir()


class World:
    """Everything that is started in it ends with it."""

    def __init__(self, *, in_memory: bool = False) -> None:
        where = directory_for(in_memory=in_memory)
        self.base = Path(tempfile.mkdtemp(prefix="handoffd-bench-", dir=where))
        # The path of a Unix socket must be short.
        self.runtime = Path(tempfile.mkdtemp(prefix="hb-", dir="/tmp"))
        self.home = self.base / "home"
        self.transcripts = self.home / ".claude/projects"
        self.transcripts.mkdir(parents=True)
        self.environment = {
            "HOME": str(self.home),
            "XDG_RUNTIME_DIR": str(self.runtime),
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "GIT_CONFIG_GLOBAL": "/dev/null",
        }
        self.process: subprocess.Popen | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        shutil.rmtree(self.base, ignore_errors=True)
        shutil.rmtree(self.runtime, ignore_errors=True)

    # The daemon

    def start(self) -> Self:
        with (self.base / "daemon.log").open("ab") as log:
            self.process = subprocess.Popen(
                [PYTHON, "-P", "-m", "handoffd", "run"],
                env=self.environment, cwd="/", stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip
        deadline = time.monotonic() + 20
        while not self._answers():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError((self.base / "daemon.log").read_text())
            time.sleep(0.005)
        return self

    def _answers(self) -> bool:
        try:
            self.connect().close()
        except OSError:
            return False
        return True

    def stop(self) -> None:
        process, self.process = self.process, None
        if process is None:
            self._stop_stranger()
            return
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _stop_stranger(self) -> None:
        """End a daemon that a client has started."""
        if self._answers():
            words = [str(BIN / "handoff"), "down"]
            subprocess.run(words, env=self.environment, capture_output=True, check=True)

    @property
    def pid(self) -> int:
        if self.process is None:
            raise RuntimeError("no daemon was started")
        return self.process.pid

    def connect(self) -> "Connection":
        return Connection(f"{self.runtime}/handoffd/handoffd.sock")

    def settle(self, pause_seconds: float = 0.05) -> None:
        """Wait until everything is read."""
        deadline = time.monotonic() + SETTLE_SECONDS
        with contextlib.closing(self.connect()) as connection:
            while not _all_read(connection.call("status")):
                if time.monotonic() > deadline:
                    raise RuntimeError(f"not read within {SETTLE_SECONDS:g} s")
                time.sleep(pause_seconds)

    # Its world

    def project(self, name: str, *, git: bool = False) -> Path:
        path = self.home / "code" / name
        path.mkdir(parents=True)
        if git:
            self.git(path, "init", "-q", "-b", "main", "--template=")
        return path

    def git(self, path: Path, *words: str) -> None:
        subprocess.run(["git", "-C", str(path), *words], env=self.environment, check=True)

    def transcript(self, script: Script) -> Path:
        """Return where the transcript of a session goes."""
        slug = "".join(c if c.isascii() and c.isalnum() else "-" for c in script.cwd)
        directory = self.transcripts / slug
        directory.mkdir(exist_ok=True)
        return directory / f"{script.id}.jsonl"

    def session(
        self, project: Path, size_bytes: int, *, seed: int = 0, ago_seconds: float = 0.0
    ) -> "Session":
        """Write the transcript of a session of this size."""
        script = Script(str(project), seed, ago_seconds)
        path = self.transcript(script)
        with path.open("wb") as stream:
            stream.writelines(script.turns(size_bytes))
        moment = time.time() - ago_seconds
        os.utime(path, (moment, moment))
        return Session(path, script)


def _all_read(status: dict) -> bool:
    return status["first_scan_done"] and not status["waiting_transcripts"]


def end_group(process: subprocess.Popen) -> None:
    """End a program that began a session of its own, with all that it started."""
    if process.poll() is None:  # else the number may be another's by now
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


class Session:
    def __init__(self, path: Path, script: Script) -> None:
        self.path = path
        self.script = script
        script.ago_seconds = 0.0

    def say(self, text: str) -> float:
        """Append one record as the editor does; returns when."""
        return append(self.path, self.script.say(text))


def append(path: Path, line: bytes) -> float:
    handle = os.open(path, os.O_WRONLY | os.O_APPEND)
    try:
        moment = time.monotonic()
        os.write(handle, line)
    finally:
        os.close(handle)
    return moment


class Connection:
    """A connection that stays open for many requests."""

    def __init__(self, path: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(20)
        try:
            self._socket.connect(path)
        except OSError:
            self._socket.close()
            raise
        self._stream = self._socket.makefile("rb")

    def close(self) -> None:
        self._stream.close()
        self._socket.close()

    def ask(self, request: bytes) -> bytes:
        self._socket.sendall(request)
        return self._stream.readline()

    def call(self, method: str, **params) -> dict:
        return json.loads(self.ask(frame(method, **params)))["result"]["data"]

    def wait_for(self, request: bytes, wanted: bytes, limit_seconds: float = 10.0) -> float:
        """Ask again and again until the answer holds the bytes; returns when it did."""
        deadline = time.monotonic() + limit_seconds
        while True:
            found = wanted in self.ask(request)
            moment = time.monotonic()
            if found:
                return moment
            if moment > deadline:
                raise RuntimeError(f"{wanted!r} was not seen within {limit_seconds:g} s")


def frame(method: str, **params) -> bytes:
    request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    return json.dumps(request).encode() + b"\n"


def resting_memory(words: list[str], environment: dict[str, str]) -> tuple[int, int]:
    """Return the memory of a program that printed a line and waits for its input to end."""
    with subprocess.Popen(
        words, env=environment, cwd="/", stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        process.stdout.readline()
        found = memory_bytes(process.pid)
        process.stdin.close()
    return found
