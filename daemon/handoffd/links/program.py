"""The one way to run another program: bounded in time and in output, its process group ended."""

import contextlib
import errno
import os
import select
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from handoff.common import programs
from handoffd.links import confinement
from handoffd.redaction.redact import redact
from handoffd.runtime import clock

OUTPUT_MAX_BYTES = 8 << 20
COMPLAINT_MAX_BYTES = 16 << 10
# More is read than is kept, so that a secret that the end would cut is still known by its form.
_COMPLAINT_READ_BYTES = COMPLAINT_MAX_BYTES + (8 << 10)
_ENDING_SECONDS = 0.2
# A child may keep the output open after the program itself has ended: we look that often.
_LOOK_SECONDS = 0.1
_NO_PROGRAM = (errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.ENOEXEC, errno.ELOOP)
# Each by when it was started, in the kernel's own count.
_running: dict[int, str] = {}
# Where the daemon keeps which programs it runs, for the one after it; -1: nobody needs to know.
_record = -1
_recording = threading.Lock()
_RECORD_MAX_BYTES = 1 << 12
# Of /proc/<pid>/stat, counted behind the name in brackets.
_STARTED = 19


class ProgramError(Exception):
    """A program gave no answer: it is missing, it was late, or it could not be started now."""

    def __init__(self, message: str, *, missing: bool = False, late: bool = False) -> None:
        super().__init__(message)
        self.missing = missing
        self.late = late


class ProgramOutput(NamedTuple):
    """What a program left behind; `whole` is False where it said more than we would read.

    Secrets are masked in `complaint`, which is words for a person. The output is data, and its
    readers mask the texts that they take from it.
    """

    code: int
    output: bytes
    complaint: bytes
    whole: bool


def run(  # noqa: PLR0913  all but the first three by name
    words: Sequence[str],
    deadline: float,
    environment: Mapping[str, str],
    *,
    most_bytes: int = OUTPUT_MAX_BYTES,
    cwd: str | None = None,
    reach: confinement.Reach | None = None,
) -> ProgramOutput:
    """Run a program without input until it ends, or until the deadline on the monotonic clock.

    With a reach it is confined to that.
    """
    # Found here: in the thread that starts a confined program, directories cannot be looked at.
    surroundings = {**environment, "PATH": programs.search_path(environment.get("PATH", ""))}

    def begin(words: Sequence[str]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(  # noqa: S603  words of ours, never a shell
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=surroundings,
            cwd=cwd,
            start_new_session=True,
        )

    try:
        process = confinement.start(reach, words, begin) if reach else begin(words)
    except (OSError, ValueError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else str(problem)
        missing = getattr(problem, "errno", None) in _NO_PROGRAM
        raise ProgramError(str(reason), missing=missing) from None
    _note(process.pid, _started(process.pid))
    try:
        read = _read(process, deadline, most_bytes)
    finally:
        _end(process)
    if read is None:
        raise ProgramError("it was not done in time", late=True)
    output, complaint = read
    words = redact(complaint.decode("utf-8", "surrogateescape"))[0]
    masked = words.encode("utf-8", "surrogateescape")[:COMPLAINT_MAX_BYTES]
    return ProgramOutput(
        process.returncode, output[:most_bytes], masked, whole=len(output) <= most_bytes
    )


def keep_record(path: str) -> int:
    """Keep from now on which programs run, and end those of a daemon that was killed.

    It could not end them itself. A number alone may be another process's by now: only what was
    started at the very same moment is ended. Returns how many there were.
    """
    global _record  # noqa: PLW0603  a process has one
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        _record = os.open(path, flags, 0o600)
        known = os.pread(_record, _RECORD_MAX_BYTES, 0).partition(b"\n")[0]
    except OSError:
        return 0  # what lies there is none of ours: nothing is kept
    left = 0
    for word in known.decode("ascii", "replace").split():
        pid, _, started = word.partition(":")
        if started and pid.isdigit() and _started(int(pid)) == started:
            _kill(int(pid))
            left += 1
    return left


def _note(pid: int, started: str | None) -> None:
    """Note that a program runs, or, without a time, that it has ended."""
    with _recording:
        if started is None:
            _running.pop(pid, None)
        else:
            _running[pid] = started
        if _record >= 0:
            words = " ".join(f"{pid}:{started}" for pid, started in _running.items())
            with contextlib.suppress(OSError):
                os.pwrite(_record, f"{words}\n".encode(), 0)


def _started(pid: int) -> str:
    """Return when a process was started, or nothing: macOS has no /proc."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stream:
            return stream.read(4096).rpartition(b")")[2].split()[_STARTED].decode()
    except (OSError, IndexError):
        return ""


def end_all() -> None:
    """End every program that is still running: the daemon is ending."""
    for pid in list(_running):
        _kill(pid)


def _read(
    process: subprocess.Popen[bytes], deadline: float, most_bytes: int
) -> tuple[bytes, bytes] | None:
    """Read what a program says on both streams; None if it is not done in time."""
    ready = select.poll()
    kept: dict[int, bytearray] = {}
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            ready.register(stream, select.POLLIN)
            kept[stream.fileno()] = bytearray()
    output, complaint = kept.values()
    open_streams = set(kept)
    while open_streams and len(output) <= most_bytes:
        rest = deadline - clock.monotonic()
        if rest < 0:
            return None
        heard = ready.poll(min(rest, _LOOK_SECONDS) * 1000)
        if not heard and _has_ended(process):
            break
        for number, _ in heard:
            part = os.read(number, 1 << 16)
            kept[number] += part
            if not part:
                ready.unregister(number)
                open_streams.discard(number)
        del complaint[_COMPLAINT_READ_BYTES:]
    return bytes(output), bytes(complaint)


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Return True if a program has ended, without reaping it where that can be avoided.

    As long as it is not reaped no other process can have its number, so that ending its group
    never hits a stranger.
    """
    if hasattr(os, "waitid"):  # macOS has it since Python 3.13
        options = os.WEXITED | os.WNOHANG | os.WNOWAIT
        return os.waitid(os.P_PID, process.pid, options) is not None
    return process.poll() is not None


def _end(process: subprocess.Popen[bytes]) -> None:
    """See that a program and all its children are gone: it may have left some behind."""
    patience = clock.monotonic() + _ENDING_SECONDS
    while not _has_ended(process) and clock.monotonic() < patience:
        time.sleep(0.001)
    _kill(process.pid)
    _note(process.pid, None)
    process.wait()
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            stream.close()


def _kill(pid: int) -> None:
    # macOS refuses the signal for a group in which nobody lives any more.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
