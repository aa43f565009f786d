"""Logging: JSON for a service manager, readable on a terminal. No transcript text at info level."""

import contextlib
import json
import logging
import os
import sys
import traceback
from typing import IO, Any

from handoffd import clock

LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}
LOG_MAX_BYTES = 1 << 20


class LogFile:
    """A log file that is moved aside at its limit: a background daemon never fills a disk."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._stream = self._open()

    def _open(self) -> IO[str]:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        return os.fdopen(os.open(self._path, flags, 0o600), "a", buffering=1, encoding="utf-8")

    def write(self, text: str) -> int:
        try:
            if self._stream.closed:
                self._stream = self._open()
            if self._stream.tell() > LOG_MAX_BYTES:
                self._stream.close()
                os.replace(self._path, self._path + ".1")
                self._stream = self._open()
            return self._stream.write(text)
        except (OSError, ValueError):
            return 0  # a full disk must not take the daemon down with it

    def flush(self) -> None:
        return


class Log:
    """Writes a line an event, with its fields; nothing until it is told where to.

    A library for it would weigh two megabytes.
    """

    def __init__(self) -> None:
        self._stream: IO[str] | LogFile | None = None
        self._least = LEVELS["info"]
        self._readable = False

    def use(self, stream: IO[str] | LogFile, level: str, *, readable: bool) -> None:
        self._stream, self._least, self._readable = stream, LEVELS[level], readable

    def debug(self, event: str, **fields: object) -> None:
        self._say("debug", event, fields)

    def info(self, event: str, **fields: object) -> None:
        self._say("info", event, fields)

    def warning(self, event: str, **fields: object) -> None:
        self._say("warning", event, fields)

    def error(self, event: str, **fields: object) -> None:
        self._say("error", event, fields)

    def _say(self, level: str, event: str, fields: dict[str, object]) -> None:
        if self._stream is None or LEVELS[level] < self._least:
            return
        at = clock.iso_milliseconds()
        if self._readable:
            told = " ".join(f"{name}={value}" for name, value in fields.items())
            line = f"{at} {level:<7} {event} {told}"
        else:
            line = json.dumps({**fields, "event": event, "level": level, "timestamp": at})
        # A full disk, or a terminal that is gone, must not take the daemon down with it.
        with contextlib.suppress(OSError, ValueError):
            self._stream.write(line + "\n")
            self._stream.flush()


_log = Log()


def configure(level: str, log_file: str | None) -> None:
    """Log from now on to a file, or else to stderr; what libraries warn of goes there, too."""
    stream: Any = LogFile(log_file) if log_file else sys.stderr
    _log.use(stream, level, readable=log_file is None and sys.stderr.isatty())
    logging.basicConfig(stream=stream, level=logging.WARNING, force=True)


def where(problem: BaseException) -> str:
    """Name the place of a failure without its values, which may be a transcript's."""
    frames = traceback.extract_tb(problem.__traceback__)
    place = f" at {os.path.basename(frames[-1].filename)}:{frames[-1].lineno}" if frames else ""
    return f"{type(problem).__name__}{place}"


def get() -> Log:
    return _log
