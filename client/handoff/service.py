"""Start and stop the daemon: by the installed unit, else as a background process."""

import contextlib
import fcntl
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import IO

from handoff.client import Client
from handoff.common import paths, programs
from handoff.common.errors import (
    HandoffError,
    NotAnsweringError,
    NotRunningError,
    VersionsDifferError,
)
from handoff.lock_holder import lock_holder

UNIT = "handoffd.service"
SOCKET_UNIT = "handoffd.socket"
LABEL = "dev.handoffd"
START_SECONDS = 10.0
STOP_SECONDS = 5.0
ERRORS_MAX_BYTES = 1 << 16


def running() -> int | None:
    """Return the process id of the daemon that answers, or None."""
    try:
        return int(Client(2.0).call("status")["data"]["pid"])
    except (NotRunningError, NotAnsweringError):
        return None
    except VersionsDifferError:
        return lock_holder()


def log_file() -> str:
    return f"{paths.state_dir()}/handoffd.log"


def has_systemd_unit() -> bool:
    return succeeds("systemctl", "--user", "cat", UNIT)


def unit_properties() -> tuple[dict[str, str], dict[str, str]]:
    """Return systemd's properties of our service and of its socket; empty if systemd is silent."""
    names = "LoadState,UnitFileState,ActiveState,Result,MainPID,ExecStart"
    said = _run("systemctl", "--user", "show", UNIT, SOCKET_UNIT, f"--property={names}")
    blocks = said.stdout.split("\n\n") if said is not None and not said.returncode else []
    found = [
        dict(line.split("=", 1) for line in block.split("\n") if "=" in line) for block in blocks
    ]
    service, socket = [*found, {}, {}][:2]
    return service, socket


def is_active(unit: str) -> bool:
    return succeeds("systemctl", "--user", "is-active", "--quiet", unit)


def has_launchd_agent() -> bool:
    return sys.platform == "darwin" and succeeds("launchctl", "print", f"gui/{os.getuid()}/{LABEL}")


def succeeds(program: str, *arguments: str) -> bool:
    done = _run(program, *arguments)
    return done is not None and done.returncode == 0


def _run(program: str, *arguments: str) -> "subprocess.CompletedProcess[str] | None":
    found = programs.find(program)
    if found is None:
        return None
    try:
        return subprocess.run(  # noqa: S603  fixed words
            [found, *arguments],
            env=programs.environment(),
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return None


def start() -> int:
    """Start the daemon, once even if several clients ask together; return its process id."""
    os.makedirs(paths.state_dir(), mode=0o700, exist_ok=True)
    handle = os.open(f"{paths.state_dir()}/up.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        pid = running()
        if pid is not None:
            return pid
        hanging = lock_holder()
        if hanging is not None and _wait(_answers_or_is_gone, 2.0) is None:
            raise NotAnsweringError(f"handoffd (process {hanging}) does not answer.")
        if has_systemd_unit():
            # Starts that a person asks for must not run into the limit meant for crash loops.
            succeeds("systemctl", "--user", "reset-failed", UNIT)
            run_or_fail("systemctl", "--user", "start", UNIT)
        elif has_launchd_agent():
            forget_failures()
            run_or_fail("launchctl", "kickstart", f"gui/{os.getuid()}/{LABEL}")
        else:
            with _open_errors() as errors:
                return _wait_until_up(_spawn(errors), errors)
        return _wait_until_up()
    finally:
        os.close(handle)


def failures() -> list[str]:
    """Return one line per daemon that ended unasked, with the time and the reason, newest last."""
    try:
        with open(f"{paths.state_dir()}/failures", encoding="utf-8", errors="replace") as stream:
            return stream.read(1 << 14).splitlines()
    except OSError:
        return []


def forget_failures() -> None:
    with contextlib.suppress(OSError):
        os.unlink(f"{paths.state_dir()}/failures")


def _answers_or_is_gone() -> int | None:
    return running() or (0 if lock_holder() is None else None)


def run_or_fail(*words: str) -> None:
    if not succeeds(*words):
        raise HandoffError(f"`{' '.join(words)}` failed.", "See: handoff logs")


def _open_errors() -> IO[bytes]:
    """Open a file for the errors of a start: in memory if possible, since the disk may be full."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("errors"), "w+b")
    return tempfile.TemporaryFile()


def _spawn(errors: IO[bytes]) -> "subprocess.Popen[str]":
    """Start a background process that outlives us and holds none of our descriptors."""
    given = programs.environment()
    environment = {name: value for name, value in given.items() if not name.startswith("PYTHON")}
    return subprocess.Popen(  # noqa: S603  our own interpreter and module
        [sys.executable, "-P", "-m", "handoffd", "run", "--log-file", log_file()],
        stdin=subprocess.DEVNULL,
        stdout=errors,
        stderr=errors,
        cwd="/",
        env=environment,
        start_new_session=True,
        text=True,
    )


def _wait_until_up(
    process: "subprocess.Popen[str] | None" = None, errors: IO[bytes] | None = None
) -> int:
    def answers_or_ended() -> int | None:
        ended = process is not None and process.poll() is not None
        return running() or (0 if ended else None)

    pid = _wait(answers_or_ended, START_SECONDS)
    if pid == 0:
        said = os.pread(errors.fileno(), ERRORS_MAX_BYTES, 0) if errors else b""
        text = said.decode("utf-8", "replace").strip()
        raise HandoffError("handoffd did not start.", text or "See: handoff logs")
    if pid is None:
        raise HandoffError(
            f"handoffd did not answer within {START_SECONDS:g} s.", "See: handoff logs"
        )
    return pid


def stop() -> int | None:
    """End the daemon and wait until it is gone; return its process id, or None if none ran."""
    activated = is_active(SOCKET_UNIT)
    if activated and not is_active(UNIT):
        return None  # asking its socket would start it
    pid = running() or lock_holder()
    if pid is None:
        return None
    if is_active(UNIT):
        run_or_fail("systemctl", "--user", "stop", UNIT)

    def is_alive() -> bool:
        # The lock, or the answer, shows that the process is our daemon. A daemon that hangs has no
        # answer, but is ended as well.
        return pid == lock_holder() or (not activated and pid == running())

    for number in (signal.SIGTERM, signal.SIGKILL):
        if is_alive():
            os.kill(pid, number)
        if _wait(lambda: None if is_alive() else pid, STOP_SECONDS):
            return pid
    raise HandoffError(f"handoffd (process {pid}) does not end.", "See: handoff logs")


def _wait(condition: Callable[[], int | None], seconds: float) -> int | None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = condition()
        if found is not None:
            return found
        time.sleep(0.05)
    return None
