"""Logging: each line is one JSON object with its secrets masked, also the lines of libraries.

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
# These libraries never see a session's words. Of every other one only errors and their places are
# logged.
_PLAIN_LIBRARIES = ("apscheduler", "asyncio", "py", "watchdog")
_FRAMES_MAX = 20


class LogFile:
    """A log file that is moved aside at its limit: a background daemon never fills a disk."""

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
            # A full disk must not take the daemon down with it.
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
    """Where a service manager or a person reads; one that is gone must not take us along."""

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError, ValueError):
            return sys.stderr.write(text)
        return 0

    def flush(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.flush()


_files: list[LogFile] = []


def problem() -> str:
    """Return why nothing is logged, or an empty text."""
    return _files[0].problem if _files else ""


def configure(level: str, log_file: str | None) -> None:
    _files[:] = [LogFile(log_file)] if log_file else []
    stream: Any = _files[0] if _files else Stderr()
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            _mask_values,
            # Also on a terminal, where a value must not move the cursor: JSON escapes controls.
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
        logger_factory=structlog.WriteLoggerFactory(file=stream),
        cache_logger_on_first_use=False,
    )
    _take_over()


def keep_silent() -> None:
    """Log nothing: a command that runs without a daemon has no log, and its output is its own."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))


def _take_over() -> None:
    """Bring into our log everything that Python and its libraries would write to stderr."""
    logging.basicConfig(handlers=[_Records()], level=logging.WARNING, force=True)
    logging.captureWarnings(capture=True)
    sys.excepthook = lambda _kind, problem, _frames: failed("crashed", problem)
    threading.excepthook = _thread_failed
    sys.unraisablehook = lambda given: failed("unraisable", given.exc_value)


def _thread_failed(given: threading.ExceptHookArgs) -> None:
    if given.exc_type is not SystemExit:  # the usual way to end a thread early
        failed("thread_failed", given.exc_value)


class _Records(logging.Handler):
    """Writes the records of the `logging` module as lines of ours."""

    def emit(self, record: logging.LogRecord) -> None:
        problem = record.exc_info[1] if record.exc_info else None
        if _is_cancellation(problem):  # a stop cancels the work under way
            return
        fields = {"at": f"{record.name}:{record.lineno}"}
        has_plain_words = record.name.partition(".")[0] in _PLAIN_LIBRARIES
        if has_plain_words:
            fields["said"] = _said(record)
        if problem is not None or record.levelno >= logging.ERROR:
            failed("library_failed", problem, **fields)
        elif has_plain_words:
            get().warning("library_warned", **fields)


def _said(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:  # noqa: BLE001  its arguments do not fit its words
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
    """Log an unexpected error with its traceback, but without values of the frames."""
    if problem is not None:
        frames = traceback.format_tb(problem.__traceback__, limit=-_FRAMES_MAX)
        fields |= {"error": why(problem), "traceback": "".join(frames)}
    get().error(event, **fields)


def asyncio_failed(context: Mapping[str, Any]) -> None:
    """Log in one line an error that asyncio found: its own words show values, over and over.

    A connection that a client ended is no error, as long as no code of ours was at work for it.
    """
    problem = context.get("exception")
    if not ("transport" in context and isinstance(problem, ConnectionError)):
        failed("loop_trouble", problem, what=context["message"])


def _is_cancellation(problem: BaseException | None) -> bool:
    if isinstance(problem, BaseExceptionGroup):
        return problem.split(asyncio.CancelledError)[1] is None
    return isinstance(problem, asyncio.CancelledError)


def where(problem: BaseException) -> str:
    """Name the place of a failure without its values, which may be a transcript's."""
    frames = traceback.extract_tb(problem.__traceback__)
    place = f" at {os.path.basename(frames[-1].filename)}:{frames[-1].lineno}" if frames else ""
    return f"{type(problem).__name__}{place}"


def why(problem: BaseException) -> str:
    """Return one line about an error: its own words, or its place where they may be a session's."""
    expected = isinstance(problem, (OSError, HandoffError))
    return (redact(str(problem))[0].partition("\n")[0] if expected else "") or where(problem)


def get() -> Any:
    return structlog.get_logger()
