"""The only importer of watchdog. It gives hints, no truth: every event may be lost.

Its threads do one thing, call `changed(path)`, and can never raise: an exception in a handler
ends watchdog's observer for good and without a word.
"""

import contextlib
import logging
import os
from collections.abc import Callable
from dataclasses import dataclass, field

from watchdog.events import (
    DirCreatedEvent,
    DirDeletedEvent,
    DirMovedEvent,
    FileCreatedEvent,
    FileDeletedEvent,
    FileModifiedEvent,
    FileMovedEvent,
    FileSystemEvent,
    FileSystemEventHandler,
)
from watchdog.observers import Observer as WatchdogObserver
from watchdog.observers.api import BaseObserver, ObservedWatch

# Opens and reads are left out, or our own reading would be news to us.
EVENTS: list[type[FileSystemEvent]] = [
    DirCreatedEvent,
    DirDeletedEvent,
    DirMovedEvent,
    FileCreatedEvent,
    FileDeletedEvent,
    FileModifiedEvent,
    FileMovedEvent,
]
_OVERFLOW_LOGGER = "watchdog.observers.inotify_c"

Changed = Callable[[str], None]


class _Handler(FileSystemEventHandler):
    def __init__(self, changed: Changed) -> None:
        self._changed = changed

    def on_any_event(self, event: FileSystemEvent) -> None:
        with contextlib.suppress(Exception):
            self._changed(os.fsdecode(event.src_path))
            if event.dest_path:
                self._changed(os.fsdecode(event.dest_path))


class _OverflowHandler(logging.Handler):
    def __init__(self, overflowed: Callable[[], None]) -> None:
        super().__init__(logging.WARNING)
        self._overflowed = overflowed

    def emit(self, record: logging.LogRecord) -> None:
        if "overflow" in record.getMessage():
            with contextlib.suppress(Exception):
                self._overflowed()


@dataclass(slots=True)
class _Watch:
    watch: ObservedWatch
    inode: int


@dataclass(slots=True)
class Observer:
    """Watches a set of single directories, never a tree."""

    changed: Changed
    overflowed: Callable[[], None]
    problem: str = ""
    _observer: BaseObserver | None = None
    _watches: dict[str, _Watch] = field(default_factory=dict)

    def start(self) -> None:
        handler = _OverflowHandler(self.overflowed)
        logger = logging.getLogger(_OVERFLOW_LOGGER)
        logger.handlers[:] = [handler]
        logger.propagate = False
        try:
            self._observer = WatchdogObserver()
            self._observer.start()
        except OSError as problem:
            self._observer = None
            self.problem = f"No watching at all ({problem.strerror}): changes are found by rescans."

    def stop(self) -> None:
        if self._observer is not None:
            self._observer.stop()
            self._observer.join(1.0)
        self._observer = None
        self._watches.clear()

    @property
    def watched(self) -> int:
        return len(self._watches)

    def want(self, directories: set[str]) -> set[str]:
        """Watch just these from now on; returns those whose watch is new."""
        if self._observer is None:
            return set()
        for path in set(self._watches) - directories:
            self._drop(path)
        return {path for path in sorted(directories) if self._see(path)}

    def check(self) -> bool:
        """Replace dead threads; returns whether events may have been lost."""
        observer = self._observer
        if observer is None:
            return False
        if observer.is_alive():
            dead = [path for path, item in self._watches.items() if not self._is_alive(item)]
            for path in dead:
                self._drop(path)
            return bool(dead)
        directories = set(self._watches)
        self.stop()
        self.start()
        self.want(directories)
        return True

    def _is_alive(self, item: _Watch) -> bool:
        emitters = self._observer.emitters if self._observer else set()
        return any(emitter.watch == item.watch and emitter.is_alive() for emitter in emitters)

    def _see(self, path: str) -> bool:
        try:
            inode = os.stat(path).st_ino
        except OSError:
            self._drop(path)
            return False
        known = self._watches.get(path)
        if known is not None and known.inode == inode:
            return False
        # Scheduling the path of a deleted directory again does nothing unless it is dropped first.
        self._drop(path)
        return self._schedule(path, inode)

    def _schedule(self, path: str, inode: int) -> bool:
        if self._observer is None:
            return False
        try:
            # A watch on a symlink gives no events at all.
            watch = self._observer.schedule(
                _Handler(self.changed), os.path.realpath(path), event_filter=EVENTS
            )
        except (OSError, RuntimeError) as problem:  # no more watches, or no more threads
            self.problem = (
                f"Watching {path} failed ({problem}): its changes are found by rescans. "
                "Raise fs.inotify.max_user_watches to watch it."
            )
            return False
        self._watches[path] = _Watch(watch, inode)
        return True

    def _drop(self, path: str) -> None:
        known = self._watches.pop(path, None)
        if known is not None and self._observer is not None:
            with contextlib.suppress(KeyError, OSError, RuntimeError):
                self._observer.unschedule(known.watch)
