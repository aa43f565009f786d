"""The only way to run another program: bounded in time and output; its process group is ended."""

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
# More is read than kept, so that a secret at the cut is still recognised by its form.
_COMPLAINT_READ_BYTES = COMPLAINT_MAX_BYTES + (8 << 10)
_ENDING_SECONDS = 0.2
# A child may keep the output open after the program has ended, so we check at this interval.
_LOOK_SECONDS = 0.1
_NO_PROGRAM = (errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.ENOEXEC, errno.ELOOP)
# Process id -> start time in the kernel's own count.
_running: dict[int, str] = {}
# The file in which the daemon lists its running programs, for the next daemon; -1: no file.
_record = -1
_recording = threading.Lock()
_RECORD_MAX_BYTES = 1 << 12
# The index of the start time in /proc/<pid>/stat, counted after the name in brackets.
_START_TIME_FIELD = 19


class ProgramError(Exception):
    """A program gave no answer: it is missing, it was late, or it could not be started now."""

    def __init__(self, message: str, *, missing: bool = False, late: bool = False) -> None:
        super().__init__(message)
        self.missing = missing
        self.late = late


class ProgramOutput(NamedTuple):
    """The result of a program; `whole` is False if its output was longer than the limit.

    Secrets are masked in `complaint`, which is text for a person. The output is data, and its
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

    With `reach`, the kernel confines it to these files.
    """
    # The path is resolved here: the thread that starts a confined program cannot read directories.
    variables = {**environment, "PATH": programs.search_path(environment.get("PATH", ""))}

    def begin(words: Sequence[str]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(  # noqa: S603  our own words, never a shell
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=variables,
            cwd=cwd,
            start_new_session=True,
        )

    try:
        process = confinement.start(reach, words, begin) if reach else begin(words)
    except (OSError, ValueError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else str(problem)
        missing = getattr(problem, "errno", None) in _NO_PROGRAM
        raise ProgramError(str(reason), missing=missing) from None
    _set_running(process.pid, _start_time(process.pid))
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
    """List running programs in a file from now on, and end those of a killed daemon.

    A killed daemon could not end them itself. Its process ids may belong to other processes by now,
    so only processes with the same start time are ended. Return how many there were.
    """
    global _record  # noqa: PLW0603  one per process
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        _record = os.open(path, flags, 0o600)
        known = os.pread(_record, _RECORD_MAX_BYTES, 0).partition(b"\n")[0]
    except OSError:
        return 0  # another kind of file has this path: no list is kept
    ended = 0
    for word in known.decode("ascii", "replace").split():
        pid, _, started = word.partition(":")
        if started and pid.isdigit() and _start_time(int(pid)) == started:
            _kill(int(pid))
            ended += 1
    return ended


def _set_running(pid: int, started: str | None) -> None:
    """Add a program to the list, or remove it if `started` is None."""
    with _recording:
        if started is None:
            _running.pop(pid, None)
        else:
            _running[pid] = started
        if _record >= 0:
            words = " ".join(f"{pid}:{started}" for pid, started in _running.items())
            with contextlib.suppress(OSError):
                os.pwrite(_record, f"{words}\n".encode(), 0)


def _start_time(pid: int) -> str:
    """Return the start time of a process, or an empty text: macOS has no /proc."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stream:
            return stream.read(4096).rpartition(b")")[2].split()[_START_TIME_FIELD].decode()
    except (OSError, IndexError):
        return ""


def end_all() -> None:
    """End all running programs, when the daemon ends."""
    for pid in list(_running):
        _kill(pid)


def _read(
    process: subprocess.Popen[bytes], deadline: float, most_bytes: int
) -> tuple[bytes, bytes] | None:
    """Return the output and the error output of a program; None if it is not done in time."""
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
        readable = ready.poll(min(rest, _LOOK_SECONDS) * 1000)
        if not readable and _has_ended(process):
            break
        for number, _ in readable:
            part = os.read(number, 1 << 16)
            kept[number] += part
            if not part:
                ready.unregister(number)
                open_streams.discard(number)
        del complaint[_COMPLAINT_READ_BYTES:]
    return bytes(output), bytes(complaint)


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Return True if a program has ended, without reaping it if that is possible.

    As long as it is not reaped, no other process can get its id, so that a signal to its group
    never hits another program.
    """
    if hasattr(os, "waitid"):  # macOS has it since Python 3.13
        options = os.WEXITED | os.WNOHANG | os.WNOWAIT
        return os.waitid(os.P_PID, process.pid, options) is not None
    return process.poll() is not None


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a program and all its children, which may outlive it."""
    grace_end = clock.monotonic() + _ENDING_SECONDS
    while not _has_ended(process) and clock.monotonic() < grace_end:
        time.sleep(0.001)
    _kill(process.pid)
    _set_running(process.pid, None)
    process.wait()
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            stream.close()


def _kill(pid: int) -> None:
    # macOS refuses a signal to a group without living processes.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
