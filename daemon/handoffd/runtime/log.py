"""Logging: every line is one JSON object with secrets masked, including the lines of libraries.

No transcript text is logged at info level.
"""

import asyncio
import contextlib
import logging
import os
import sys
import threading
import traceback
from collections.abc import Mapping
from typing import IO, Any

import structlog

from handoff.common.errors import HandoffError
from handoffd.redaction.redact import redact

LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}
LOG_MAX_BYTES = 1 << 20
# These libraries never see the text of a session, so their messages are logged. From all other
# libraries only errors and their locations are logged.
_PLAIN_LIBRARIES = ("apscheduler", "asyncio", "py", "watchdog")
_FRAMES_MAX = 20


class LogFile:
    """A log file that is moved aside at a size limit, so that the daemon never fills a disk."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._stream: IO[str] | None = None
        self._writing = threading.Lock()
        self.problem = ""
        self.write("")

    def _open(self) -> IO[str]:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        return os.fdopen(os.open(self._path, flags, 0o600), "a", buffering=1, encoding="utf-8")

    def write(self, text: str) -> int:
        try:
            with self._writing:
                written = self._append(text)
        except (OSError, ValueError) as problem:
            # A full disk must not end the daemon.
            self.problem = f"The log cannot be written: {problem}."
            return 0
        self.problem = ""
        return written

    def _append(self, text: str) -> int:
        if self._stream is None or self._stream.closed:
            self._stream = self._open()
        if self._stream.tell() > LOG_MAX_BYTES:
            self._stream.close()
            os.replace(self._path, self._path + ".1")
            self._stream = self._open()
        return self._stream.write(text)

    def flush(self) -> None:
        return


class Stderr:
    """The standard error stream; a closed one must not end the daemon."""

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError, ValueError):
            return sys.stderr.write(text)
        return 0

    def flush(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.flush()


_files: list[LogFile] = []


def problem() -> str:
    """Return the reason why the log cannot be written, or an empty text."""
    return _files[0].problem if _files else ""


def configure(level: str, log_file: str | None) -> None:
    _files[:] = [LogFile(log_file)] if log_file else []
    stream: Any = _files[0] if _files else Stderr()
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            _mask_values,
            # JSON escapes control characters, so that a value cannot move the cursor of a terminal.
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
        logger_factory=structlog.WriteLoggerFactory(file=stream),
        cache_logger_on_first_use=False,
    )
    _capture_library_output()


def keep_silent() -> None:
    """Log nothing: a command without a daemon has no log, and prints only its own output."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))


def _capture_library_output() -> None:
    """Log everything that Python and its libraries would otherwise write to stderr."""
    logging.basicConfig(handlers=[_LibraryLogHandler()], level=logging.WARNING, force=True)
    logging.captureWarnings(capture=True)
    sys.excepthook = lambda _kind, problem, _frames: failed("crashed", problem)
    threading.excepthook = _thread_failed
    sys.unraisablehook = lambda given: failed("unraisable", given.exc_value)


def _thread_failed(given: threading.ExceptHookArgs) -> None:
    if given.exc_type is not SystemExit:  # the usual way to end a thread early
        failed("thread_failed", given.exc_value)


class _LibraryLogHandler(logging.Handler):
    """Writes the records of the `logging` module to our log."""

    def emit(self, record: logging.LogRecord) -> None:
        problem = record.exc_info[1] if record.exc_info else None
        if _is_cancellation(problem):  # stopping the daemon cancels running work
            return
        fields = {"at": f"{record.name}:{record.lineno}"}
        has_plain_words = record.name.partition(".")[0] in _PLAIN_LIBRARIES
        if has_plain_words:
            fields["said"] = _message_of(record)
        if problem is not None or record.levelno >= logging.ERROR:
            failed("library_failed", problem, **fields)
        elif has_plain_words:
            get().warning("library_warned", **fields)


def _message_of(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:  # noqa: BLE001  its arguments do not fit its format
        return str(record.msg)


def _mask_values(_logger: Any, _method: str, line: Mapping[str, Any]) -> dict[str, Any]:
    return {key: _masked(value) for key, value in line.items()}


def _masked(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, Mapping):
        return {str(key): _masked(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_masked(item) for item in value]
    return redact(str(value))[0]


def failed(event: str, problem: BaseException | None, **fields: Any) -> None:
    """Log an unexpected error with its traceback, but without the values in its frames."""
    if problem is not None:
        frames = traceback.format_tb(problem.__traceback__, limit=-_FRAMES_MAX)
        fields |= {"error": why(problem), "traceback": "".join(frames)}
    get().error(event, **fields)


def asyncio_failed(context: Mapping[str, Any]) -> None:
    """Log an error that asyncio reports, in one line: its own report repeats values.

    A connection that a client closed is not an error, as long as no code of ours was handling it.
    """
    problem = context.get("exception")
    if not ("transport" in context and isinstance(problem, ConnectionError)):
        failed("loop_trouble", problem, what=context["message"])


def _is_cancellation(problem: BaseException | None) -> bool:
    if isinstance(problem, BaseExceptionGroup):
        return problem.split(asyncio.CancelledError)[1] is None
    return isinstance(problem, asyncio.CancelledError)


def where(problem: BaseException) -> str:
    """Return the type and location of an error, without values: a transcript may hold them."""
    frames = traceback.extract_tb(problem.__traceback__)
    place = f" at {os.path.basename(frames[-1].filename)}:{frames[-1].lineno}" if frames else ""
    return f"{type(problem).__name__}{place}"


def why(problem: BaseException) -> str:
    """Return one line about an error: its message, or its location if it may quote a session."""
    expected = isinstance(problem, (OSError, HandoffError))
    return (redact(str(problem))[0].partition("\n")[0] if expected else "") or where(problem)


def get() -> Any:
    return structlog.get_logger()
