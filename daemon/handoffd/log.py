"""Logging: JSON for a service manager, readable on a terminal. No transcript text at info level."""

import contextlib
import logging
import os
import sys
import traceback
from typing import IO, Any

import structlog

from handoff.errors import HandoffError

LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}
LOG_MAX_BYTES = 1 << 20


class LogFile:
    """A log file that is moved aside at its limit: a background daemon never fills a disk."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._stream: IO[str] | None = None
        self.problem = ""
        self.write("")

    def _open(self) -> IO[str]:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        return os.fdopen(os.open(self._path, flags, 0o600), "a", buffering=1, encoding="utf-8")

    def write(self, text: str) -> int:
        try:
            if self._stream is None or self._stream.closed:
                self._stream = self._open()
            if self._stream.tell() > LOG_MAX_BYTES:
                self._stream.close()
                os.replace(self._path, self._path + ".1")
                self._stream = self._open()
            written = self._stream.write(text)
        except (OSError, ValueError) as problem:
            # A full disk must not take the daemon down with it.
            self.problem = f"The log cannot be written: {problem}."
            return 0
        self.problem = ""
        return written

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
    readable = log_file is None and sys.stderr.isatty()
    renderer: Any = (
        structlog.dev.ConsoleRenderer() if readable else structlog.processors.JSONRenderer()
    )
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
        logger_factory=structlog.WriteLoggerFactory(file=stream),
        cache_logger_on_first_use=False,
    )
    logging.basicConfig(stream=stream, level=logging.WARNING, force=True)


def where(problem: BaseException) -> str:
    """Name the place of a failure without its values, which may be a transcript's."""
    frames = traceback.extract_tb(problem.__traceback__)
    place = f" at {os.path.basename(frames[-1].filename)}:{frames[-1].lineno}" if frames else ""
    return f"{type(problem).__name__}{place}"


def why(problem: BaseException) -> str:
    """Say in a line what went wrong: what was expected says so itself, of all else the place."""
    expected = isinstance(problem, (OSError, HandoffError))
    return str(problem).splitlines()[0] if expected else where(problem)


def get() -> Any:
    return structlog.get_logger()
