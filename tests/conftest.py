"""A real daemon in a temporary HOME, and sessions that grow as Claude Code's do."""

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
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import settings

# The time of an example depends on the machine only.
settings.register_profile("here", deadline=None)
settings.load_profile("here")

BIN = Path(sys.executable).parent
REPOSITORY = Path(__file__).parent.parent
LONG_SECONDS = 900
# The limit of a wait for a condition, a program or an answer. A result is seen at once, so a long
# limit costs nothing, and gives a busy machine its time.
PATIENCE_SECONDS = 90.0
# The tests of these directories start daemons and real programs: they are slow unless marked
# `quick`, so a new one of them does not make `make test` longer by itself.
SLOW_DIRECTORIES = ("e2e", "faults", "integration")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark slow tests by their directory, and give long ones the time they need."""
    tests = REPOSITORY / "tests"
    for item in items:
        directory = item.path.relative_to(tests).parts[0]
        if directory in SLOW_DIRECTORIES and not item.get_closest_marker("quick"):
            item.add_marker(pytest.mark.slow)
        if item.get_closest_marker("long") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(LONG_SECONDS))


@pytest.fixture(autouse=True, scope="session")
def own_state(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Our code in the test process itself leaves nothing in the real HOME."""
    os.environ["XDG_STATE_HOME"] = str(tmp_path_factory.mktemp("state"))


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory):
    """Give the tests one cache: a bd compiles its database engine into it, for a second."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))
        yield


def wait_for(condition: Callable, seconds: float = PATIENCE_SECONDS, what: str = ""):
    """Wait until a condition returns a true value, and return it."""
    deadline = time.monotonic() + seconds
    while True:
        found = condition()
        if found:
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds} s: {what or condition}")
        time.sleep(0.02)


def allowed(seconds: float) -> float:
    """Return the time allowed here for work that takes so long on a machine at rest.

    A promise is about our own work: the processor time that others take meanwhile is added.
    """
    with contextlib.suppress(OSError):
        running = int(Path("/proc/loadavg").read_text().split()[3].partition("/")[0])
        return seconds * (1 + max(os.getloadavg()[0], running) / (os.cpu_count() or 1))
    return seconds * (1 + os.getloadavg()[0] / (os.cpu_count() or 1))


def files_below(*roots: Path) -> Iterator[Path]:
    """Yield the files below these directories; a running daemon may remove some meanwhile.

    `Path.rglob` raises if a directory vanishes while it looks, `os.walk` does not.
    """
    for root in roots:
        for directory, _, names in os.walk(root):
            yield from (Path(directory, name) for name in names)


def paths_below(*roots: Path) -> Iterator[Path]:
    """Yield these directories, and every file and directory below them, as files_below does."""
    for root in roots:
        for directory, below, names in os.walk(root):
            yield Path(directory)
            links = (name for name in below if os.path.islink(os.path.join(directory, name)))
            yield from (Path(directory, name) for name in (*names, *links))


def contents_below(*roots: Path) -> dict[Path, bytes]:
    """Return the files below these directories with their bytes, without those that vanish."""
    found = {}
    for path in files_below(*roots):
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            if path.is_file():
                found[path] = path.read_bytes()
    return found


def timestamp(ago_seconds: float = 0.0) -> str:
    moment = datetime.fromtimestamp(time.time() - ago_seconds, UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"


class Session:
    """Writes a transcript line by line."""

    def __init__(self, directory: Path, cwd: str, session_id: str | None = None, **envelope):
        self.id = session_id or str(uuid.uuid4())
        self.cwd = cwd
        self.envelope = envelope
        directory.mkdir(parents=True, exist_ok=True)
        self.path = directory / f"{self.id}.jsonl"
        self.last: str | None = None

    def line(self, kind: str, **fields) -> bytes:
        record = {
            "parentUuid": self.last,
            "isSidechain": False,
            "type": kind,
            "uuid": str(uuid.uuid4()),
            "timestamp": timestamp(),
            "sessionId": self.id,
            "cwd": self.cwd,
            "version": "2.1.325",
            "gitBranch": "main",
            "entrypoint": "cli",
            **self.envelope,
            **fields,
        }
        self.last = record["uuid"]
        return json.dumps(record, separators=(",", ":")).encode() + b"\n"

    def raw(self, data: bytes) -> None:
        with self.path.open("ab") as stream:
            stream.write(data)

    def prompt(self, text: str, **fields) -> None:
        self.raw(self.line("user", message={"role": "user", "content": text}, **fields))

    def say(self, text: str, **fields) -> None:
        self.raw(self.line("assistant", message=_message({"type": "text", "text": text}), **fields))

    def edit(self, path: str, **fields) -> None:
        block = {"type": "tool_use", "id": "t", "name": "Edit", "input": {"file_path": path}}
        self.raw(self.line("assistant", message=_message(block), **fields))


def _message(block: dict) -> dict:
    return {"role": "assistant", "id": "msg_1", "content": [block]}


class DaemonSandbox:
    """A HOME with a daemon in it."""

    def __init__(self, directory: Path, runtime: Path):
        self.home = directory / "home"
        self.home.mkdir()
        self.runtime = runtime
        self.environment = {
            "HOME": str(self.home),
            "XDG_RUNTIME_DIR": str(runtime),
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "HANDOFFD_TEST": "1",
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_AUTHOR_NAME": "A", "GIT_AUTHOR_EMAIL": "a@example.invalid",
            "GIT_COMMITTER_NAME": "A", "GIT_COMMITTER_EMAIL": "a@example.invalid",
        }  # fmt: skip
        self.process: subprocess.Popen | None = None
        # The command that runs the daemon's own command, such as unshare.
        self.wrapper: list[str] = []
        self.log = directory / "daemon.log"

    @property
    def socket_path(self) -> str:
        return self.environment.get("HANDOFFD_SOCKET") or f"{self.runtime}/handoffd/handoffd.sock"

    @property
    def state(self) -> Path:
        return self.home / ".local/state/handoffd"

    @property
    def transcripts(self) -> Path:
        return self.home / ".claude/projects"

    # The daemon

    def spawn(self, **popen) -> subprocess.Popen:
        with self.log.open("ab") as stream:
            return subprocess.Popen(
                [*self.wrapper, sys.executable, "-P", "-m", "handoffd", "run"],
                env=self.environment, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream,
                cwd="/", **popen,
            )  # fmt: skip

    def start(self) -> "DaemonSandbox":
        self.process = self.spawn()
        wait_for(lambda: self.alive() and self.answers(), what="the daemon answers")
        return self

    def alive(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self.log.read_text()
        return True

    def answers(self) -> bool:
        try:
            return "result" in self.request("status")
        except OSError:
            return False

    def stop(self, number: int = signal.SIGTERM) -> int:
        process, self.process = self.process, None
        if process is None:
            return 0
        process.send_signal(signal.SIGCONT)
        process.send_signal(number)
        return process.wait(PATIENCE_SECONDS)

    def kill(self) -> None:
        self.stop(signal.SIGKILL)

    def restart(self) -> "DaemonSandbox":
        self.stop()
        return self.start()

    # Requests

    def request(self, method: str, timeout: float = PATIENCE_SECONDS, **params) -> dict:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(timeout)
            connection.connect(self.socket_path)
            frame = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
            connection.sendall(json.dumps(frame).encode() + b"\n")
            with connection.makefile("rb") as stream:
                return json.loads(stream.readline())

    def call(self, method: str, **params) -> dict:
        reply = self.request(method, **params)
        assert "result" in reply, reply
        return reply["result"]["data"]

    def show(self, project) -> dict:
        return self.call("show", cwd=str(project))

    def document(self, project) -> dict:
        return self.show(project)["document"]

    def settled(self) -> bool:
        status = self.call("status")
        return status["first_scan_done"] and not status["waiting_transcripts"]

    def run_due(self) -> bool:
        """Let the daemon do all due reading, looking and writing, without a pause."""
        self.call("run_due")
        return True

    def handoff(self, *words: str, cwd=None, program: str = "handoff", env=None, **run):
        return subprocess.run(
            [str(BIN / program), *words],
            env={**self.environment, **(env or {})}, cwd=cwd or self.home,
            capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False,
            **{"stdin": subprocess.DEVNULL, **run} if "input" not in run else run,
        )  # fmt: skip

    # Projects and sessions

    def project(self, name: str = "shop", *, git: bool = True) -> Path:
        path = self.home / "code" / name
        path.mkdir(parents=True)
        if git:
            self.git(path, "init", "-q", "-b", "main")
        return path

    def git(self, path: Path, *words: str) -> str:
        done = subprocess.run(
            ["git", "-C", str(path), *words],
            env=self.environment, capture_output=True, text=True, check=True,
        )  # fmt: skip
        return done.stdout

    def session(self, project: Path, session_id: str | None = None, **envelope) -> Session:
        slug = "".join(c if c.isascii() and c.isalnum() else "-" for c in str(project))
        return Session(self.transcripts / slug, str(project), session_id, **envelope)

    def yaml(self, project: Path) -> str:
        path = project / ".flow-guardian/handoff.yaml"
        return path.read_text() if path.exists() else ""


@pytest.fixture
def sandbox(tmp_path: Path) -> Iterator[DaemonSandbox]:
    """A temporary HOME; the test starts the daemon."""
    # A Unix socket's path must be short, and pytest's directories are not.
    runtime = Path(tempfile.mkdtemp(prefix="ho-", dir="/tmp"))
    found = DaemonSandbox(tmp_path, runtime)
    yield found
    found.kill()
    shutil.rmtree(runtime, ignore_errors=True)


@pytest.fixture
def live(sandbox: DaemonSandbox) -> DaemonSandbox:
    """A temporary HOME with a running daemon."""
    sandbox.transcripts.mkdir(parents=True)
    return sandbox.start()


@pytest.fixture(params=["daemon", "alone"])
def world(sandbox: DaemonSandbox, request) -> DaemonSandbox:
    """A HOME with a daemon, and the same without one."""
    sandbox.transcripts.mkdir(parents=True)
    if request.param == "daemon":
        sandbox.start()
    return sandbox


@pytest.fixture
def client() -> Iterator[subprocess.Popen]:
    """A process that stands for a client."""
    process = subprocess.Popen(["sleep", "300"])
    yield process
    process.kill()
    process.wait()


@pytest.fixture(scope="module")
def served(tmp_path_factory) -> Iterator[DaemonSandbox]:
    """A running daemon for all the tests of a file that leave nothing behind but threads."""
    from mcp_socket_client import serving

    with serving(tmp_path_factory.mktemp("bridge")) as sandbox:
        yield sandbox


@pytest.fixture
def mcp(served):
    """A connection that speaks MCP."""
    from mcp_socket_client import Mcp

    with Mcp(served) as connection:
        yield connection
