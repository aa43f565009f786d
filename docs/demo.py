"""Show how a scripted session becomes a handoff: the real daemon and client, a temporary HOME.

python docs/demo.py [--colour]
"""

import argparse
import contextlib
import json
import os
import re
import signal
import string
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from screen import DemoScreen, changes, wants_colour

PAUSE_SECONDS = 0.3  # between two steps, for the reader
# The daemon writes within 2 s. If a watch is not set yet, its rescan comes within 5 s more.
STEP_SECONDS = 9.0
START_SECONDS = 10.0
STOP_SECONDS = 5.0
LOG_LINES = 15

GOAL = "Keep people logged in for a day, not an hour"
FOUND = "The cookie is fine, session.py expires it early."
THEORY = "refresh keeps old expiry"
BRANCH = "fix/token-expiry"
# The token is put together here, so that no scanner takes this file for a leak. For the same
# reason only its ends are shown: the output of the demo is kept as a picture.
TOKEN = "ghp_" + string.digits + string.ascii_lowercase
TOKEN_SHOWN = f"{TOKEN[:8]}...{TOKEN[-4:]}"
FAILED = "With {} staging still says 401"
MASKED = FAILED.format("[redacted:github-token]")


class DemoError(Exception):
    """The demo cannot go on; the message says why."""


# The temporary HOME


@dataclass
class Sandbox:
    """A HOME with a project and an environment that leads nowhere else."""

    base: Path
    environment: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        (self.base / "run").mkdir(mode=0o700)
        self.transcripts.mkdir(parents=True)
        # The environment is made from scratch: no variable of the caller may lead the daemon to
        # the real HOME.
        self.environment = {
            "HOME": str(self.home),
            "XDG_RUNTIME_DIR": str(self.base / "run"),
            "HANDOFFD_SOCKET": str(self.base / "run/handoffd.sock"),
            "PATH": os.environ.get("PATH", os.defpath),
            "LANG": "C.UTF-8",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
        }

    @property
    def home(self) -> Path:
        return self.base / "home"

    @property
    def project(self) -> Path:
        return self.home / "shop"

    @property
    def transcripts(self) -> Path:
        """The directory of a project's transcripts: Claude Code writes the path with dashes."""
        return self.home / ".claude/projects" / re.sub(r"[^A-Za-z0-9]", "-", str(self.project))

    @property
    def log(self) -> Path:
        return self.base / "daemon.log"

    def checkpoint(self) -> str:
        try:
            return (self.project / ".flow-guardian/handoff.yaml").read_text(encoding="utf-8")
        except FileNotFoundError:
            return ""

    def run(self, *words: str) -> str:
        done = subprocess.run(
            words, cwd=self.project, env=self.environment, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=START_SECONDS, check=False,
        )  # fmt: skip
        if done.returncode:
            raise DemoError(f"{' '.join(words)} failed:\n{done.stdout}{done.stderr}")
        return done.stdout

    def handoff(self, *words: str) -> str:
        return self.run(str(Path(sys.executable).parent / "handoff"), *words)

    def git(self, *words: str) -> str:
        return self.run("git", "-c", "user.name=A", "-c", "user.email=a@example.invalid", *words)

    def holders(self, text: str) -> list[Path]:
        """Return the files that contain a text, the daemon's state and log included."""
        found = []
        for path in self.base.rglob("*"):
            # The daemon replaces its files while we look.
            with contextlib.suppress(OSError):
                if path.is_file() and text.encode() in path.read_bytes():
                    found.append(path)
        return found


def make_project(sandbox: Sandbox) -> None:
    for name in ("session.py", "test_session.py"):
        path = sandbox.project / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("# one hour\n", encoding="utf-8")
    sandbox.git("init", "-q", "-b", "main")
    sandbox.git("add", ".")
    sandbox.git("commit", "-q", "-m", "Sessions")


# The processes


@contextlib.contextmanager
def running(process: subprocess.Popen[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """End a process, by its handle, however the block is left."""
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def start_daemon(sandbox: Sandbox) -> subprocess.Popen[bytes]:
    with sandbox.log.open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "handoffd", "run"],
            cwd="/", env=sandbox.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
        )  # fmt: skip


def await_daemon(sandbox: Sandbox, daemon: subprocess.Popen[bytes]) -> None:
    """Wait until the daemon answers and has done its first scan."""

    def is_ready() -> bool:
        if daemon.poll() is not None:
            raise DemoError(f"The daemon ended with exit code {daemon.returncode}.")
        # Before there is a socket, a request would only start clients in vain.
        if not Path(sandbox.environment["HANDOFFD_SOCKET"]).exists():
            return False
        try:
            return bool(json.loads(sandbox.handoff("status", "--json"))["first_scan_done"])
        except DemoError:
            return False  # between bind and listen the daemon does not answer yet

    wait_for(is_ready, START_SECONDS, "the daemon's answer")


def log_tail(sandbox: Sandbox) -> str:
    try:
        lines = sandbox.log.read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        lines = []
    return "\n".join(["The last lines of its log:", *(lines[-LOG_LINES:] or ["(none)"])])


def wait_for(condition: Callable[[], bool], seconds: float, what: str) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise DemoError(f"Waited {seconds:.0f} s in vain for {what}.")
        time.sleep(0.02)


# The session


@dataclass
class ScriptedSession:
    """A stand-in for Claude Code: a process that appends to a transcript, and can be killed."""

    sandbox: Sandbox
    id: str = field(default_factory=lambda: str(uuid.uuid4()))
    process: subprocess.Popen[bytes] = field(init=False)

    def __post_init__(self) -> None:
        self.process = subprocess.Popen(
            ["tee", "-a", str(self.path)], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
        )

    @property
    def path(self) -> Path:
        return self.sandbox.transcripts / f"{self.id}.jsonl"

    def write(self, data: bytes) -> None:
        pipe = self.process.stdin
        if pipe is not None:
            pipe.write(data)
            pipe.flush()

    def record(self, role: str, content: str | list[dict[str, object]]) -> bytes:
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        record = {
            "parentUuid": None,
            "isSidechain": False,
            "type": role,
            "uuid": str(uuid.uuid4()),
            "timestamp": now.replace("+00:00", "Z"),
            "sessionId": self.id,
            "cwd": str(self.sandbox.project),
            "version": "2.1.0",
            "gitBranch": "main",
            "entrypoint": "cli",
            "message": {"role": role, "content": content},
        }
        return json.dumps(record, separators=(",", ":")).encode() + b"\n"

    def prompt(self, text: str) -> None:
        self.write(self.record("user", text))

    def say(self, text: str) -> None:
        self.write(self.record("assistant", [{"type": "text", "text": text}]))

    def edit(self, *names: str) -> None:
        lines = b""
        for name in names:
            path = self.sandbox.project / name
            path.write_text("# one day\n", encoding="utf-8")
            given = {"file_path": str(path)}
            lines += self.record(
                "assistant", [{"type": "tool_use", "id": "t", "name": "Edit", "input": given}]
            )
        self.write(lines)

    def die(self, text: str) -> None:
        """Kill the process half way through a line."""
        line = self.record("assistant", [{"type": "text", "text": text}])
        size = self.path.stat().st_size + len(line) // 2
        self.write(line[: len(line) // 2])
        wait_for(lambda: self.path.stat().st_size == size, STEP_SECONDS, "half a line")
        self.process.kill()
        self.process.wait()


# The story


@dataclass
class StepRunner:
    """Takes steps, and shows the effect of each step on handoff.yaml."""

    sandbox: Sandbox
    screen: DemoScreen

    def step(self, who: str, what: str, act: Callable[[], object], *until: str) -> None:
        """Act, wait until handoff.yaml contains the given texts, and show its changed lines."""
        before = self.sandbox.checkpoint()
        self.screen.begin(who, what)
        started = time.monotonic()
        act()
        wait_for(
            lambda: all(text in self.sandbox.checkpoint() for text in until),
            STEP_SECONDS,
            f"{until} in handoff.yaml",
        )
        self.screen.end(len(f"{who} {what}"), time.monotonic() - started)
        for line in changes(before, self.sandbox.checkpoint()):
            self.screen.change(line)
        time.sleep(PAUSE_SECONDS)

    def ask(self, command: str, why: str) -> None:
        self.screen.command(f"handoff {command}", why)
        self.screen.output(self.sandbox.handoff(command))


def run_story(runner: StepRunner, session: ScriptedSession) -> None:
    sandbox = runner.sandbox
    runner.step("The person types:", GOAL, lambda: session.prompt(GOAL), f"goal: {GOAL}")
    runner.step("The assistant says:", FOUND, lambda: session.say(FOUND), FOUND)
    names = ("test_session.py", "session.py")
    runner.step("The assistant edits:", " ".join(names), lambda: session.edit(*names), *names)
    switch = ("switch", "-c", BRANCH)
    runner.step(
        "The person runs:", f"git {' '.join(switch)}", lambda: sandbox.git("switch", "-qc", BRANCH),
        f"branch: {BRANCH}",
    )  # fmt: skip
    runner.step(
        "The person runs:", f"handoff save --hypothesis '{THEORY}'",
        lambda: sandbox.handoff("save", "--hypothesis", THEORY), f"hypothesis: {THEORY}",
    )  # fmt: skip
    runner.step(
        "The assistant says:", FAILED.format(TOKEN_SHOWN),
        lambda: session.say(FAILED.format(TOKEN)), MASKED,
    )  # fmt: skip
    check_token_is_masked(runner, session)
    runner.screen.begin("The session is killed", "half way through a line: no goodbye.\n")
    session.die("I look at refresh() now.")


def check_token_is_masked(runner: StepRunner, session: ScriptedSession) -> None:
    others = [path for path in runner.sandbox.holders(TOKEN) if path != session.path]
    if others:
        raise DemoError(f"The token was written to {', '.join(map(str, others))}.")
    runner.screen.note("Nothing that the daemon wrote, its state and log included, has the token.")


def run(base: Path, colour: bool) -> None:
    sandbox = Sandbox(base)
    screen = DemoScreen(colour, str(sandbox.home))
    screen.introduce()
    make_project(sandbox)
    with contextlib.ExitStack() as processes:
        daemon = processes.enter_context(running(start_daemon(sandbox)))
        try:
            await_daemon(sandbox, daemon)
            session = ScriptedSession(sandbox)
            processes.enter_context(running(session.process))
            runner = StepRunner(sandbox, screen)
            run_story(runner, session)
            runner.ask("show", "what the daemon knows")
            runner.ask("inject", "what the next session is told")
        except DemoError as problem:
            raise DemoError(f"{problem}\n{log_tail(sandbox)}") from None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--colour", action="store_true", help="also where no terminal is")
    given = parser.parse_args()
    # Neither SIGTERM nor a closed terminal may leave a daemon behind.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    try:
        # The directory is below /tmp, since the path of a Unix socket must be short. It is the real
        # path, since macOS has a link there and the daemon names projects by their real paths.
        with tempfile.TemporaryDirectory(prefix="demo-", dir=os.path.realpath("/tmp")) as base:
            run(Path(base), wants_colour(given.colour))
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except BrokenPipeError:
        # The reader has gone (`| head`). The rest of the output is discarded without a message.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    except (DemoError, OSError, subprocess.SubprocessError) as problem:
        sys.stdout.flush()
        print(f"\n\nThe demo failed. {problem}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
