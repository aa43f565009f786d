"""Watch directories; the only importer of watchdog. Watches are hints: every event may be lost.

The threads only call `changed(path)`, and never raise: an exception in a handler ends watchdog's
observer permanently and silently. On Linux one thread reads for all watches; watchdog's own
observer, used elsewhere, takes three threads per watch.
"""

import contextlib
import errno
import itertools
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

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

if sys.platform == "linux":
    from watchdog.observers.inotify_c import (
        CallbackId,
        InotifyConstants,
        InotifyEvent,
        InotifyFD,
        Mask,
        WatchDescriptor,
    )

# Opens and reads are left out, since our own reading would cause such events.
EVENTS: list[type[FileSystemEvent]] = [
    DirCreatedEvent,
    DirDeletedEvent,
    DirMovedEvent,
    FileCreatedEvent,
    FileDeletedEvent,
    FileModifiedEvent,
    FileMovedEvent,
]

Changed = Callable[[str], None]


class _EventHandler(FileSystemEventHandler):
    def __init__(self, changed: Changed) -> None:
        self._changed = changed

    def on_any_event(self, event: FileSystemEvent) -> None:
        with contextlib.suppress(Exception):
            self._changed(os.fsdecode(event.src_path))
            if event.dest_path:
                self._changed(os.fsdecode(event.dest_path))


class _Watcher(Protocol):
    """A backend that watches single directories."""

    def add(self, path: str) -> Any: ...
    def remove(self, token: Any) -> None: ...
    def is_alive(self) -> bool: ...
    def is_watching(self, token: Any) -> bool: ...
    def stop(self) -> None: ...


class ThreadsWatcher:
    """watchdog's own observer, for systems without inotify."""

    def __init__(self, changed: Changed, _overflowed: Callable[[], None]) -> None:
        self._handler = _EventHandler(changed)
        self._observer = WatchdogObserver()
        self._observer.start()

    def add(self, path: str) -> Any:
        return self._observer.schedule(self._handler, path, event_filter=EVENTS)

    def remove(self, token: Any) -> None:
        with contextlib.suppress(KeyError, OSError, RuntimeError):
            self._observer.unschedule(token)

    def is_alive(self) -> bool:
        return self._observer.is_alive()

    def is_watching(self, token: Any) -> bool:
        return any(
            emitter.watch == token and emitter.is_alive() for emitter in self._observer.emitters
        )

    def stop(self) -> None:
        self._observer.stop()
        self._observer.join(1.0)


if sys.platform == "linux":
    _EVENT_MASK = Mask(
        InotifyConstants.IN_MODIFY
        | InotifyConstants.IN_MOVE
        | InotifyConstants.IN_CREATE
        | InotifyConstants.IN_DELETE
        | InotifyConstants.IN_DELETE_SELF
        | InotifyConstants.IN_DONT_FOLLOW
        | InotifyConstants.IN_ONLYDIR
    )

    @dataclass(slots=True)
    class _Directory:
        """A watched directory, with the callbacks for the reading thread."""

        path: str
        changed: Changed
        id: CallbackId
        number: WatchDescriptor | None = None
        gone: bool = False

        def on_event(self, event: InotifyEvent) -> None:
            with contextlib.suppress(Exception):
                name = os.fsdecode(event.name)
                self.changed(f"{self.path}/{name}" if name else self.path)

        def on_watch_deleted(self, wd: WatchDescriptor) -> None:
            self.gone = self.number == wd

        def on_queue_overflow(self) -> None:
            """Do nothing: every directory is called; `_InotifyReader` reports an overflow once."""

    class _InotifyReader(InotifyFD):
        def __init__(self, overflowed: Callable[[], None]) -> None:
            self._overflowed = overflowed
            super().__init__()

        def handle_event(self, event: InotifyEvent) -> None:
            if event.is_queue_overflow:
                with contextlib.suppress(Exception):
                    self._overflowed()
            super().handle_event(event)

    class InotifyWatcher:
        """One inotify instance and one thread for all directories."""

        def __init__(self, changed: Changed, overflowed: Callable[[], None]) -> None:
            self._changed = changed
            self._ids = itertools.count()
            self._reader = _InotifyReader(overflowed)
            self._reader.start()

        def add(self, path: str) -> Any:
            callback_id = CallbackId(next(self._ids))
            directory = _Directory(path, self._changed, callback_id)
            encoded = os.fsencode(path)
            directory.number = self._reader.add_callback(
                encoded, _EVENT_MASK, directory, callback_id
            )
            if directory.number == -1:  # watchdog reports EACCES as success
                raise PermissionError(f"{path} may not be watched")
            return directory

        def remove(self, token: Any) -> None:
            with contextlib.suppress(OSError):
                if not token.gone:
                    self._reader.remove_callbacks([(token.number, token.id)])

        def is_alive(self) -> bool:
            return self._reader.is_alive()

        def is_watching(self, token: Any) -> bool:
            return not token.gone

        def stop(self) -> None:
            self._reader.stop()
            self._reader.join(1.0)


def _watcher(changed: Changed, overflowed: Callable[[], None]) -> _Watcher:
    if sys.platform == "linux":
        return InotifyWatcher(changed, overflowed)
    return ThreadsWatcher(changed, overflowed)


def _remedy(problem: OSError | RuntimeError) -> str:
    """Return which limit of the kernel was reached, or else the error's own text."""
    kind = {errno.ENOSPC: "watches", errno.EMFILE: "instances"}.get(getattr(problem, "errno", 0))
    limits = [
        (int(text), name)
        for name in (f"fs.inotify.max_user_{kind}", f"user.max_inotify_{kind}")
        if (text := _setting(name)).isdigit()
    ]
    if not limits:
        return str(problem)
    # The second name is the limit of a container; the lower one counts.
    value, name = min(limits)
    return f"{name} ({value}) is used up: raise it."


def _setting(name: str) -> str:
    try:
        with open(f"/proc/sys/{name.replace('.', '/')}") as stream:
            return stream.read().strip()
    except OSError:
        return ""


@dataclass(slots=True)
class _Watch:
    token: Any
    inode: int


@dataclass(slots=True)
class Observer:
    """Watches a set of single directories, never a whole tree."""

    changed: Changed
    overflowed: Callable[[], None]
    problem: str = ""
    make: Callable[[Changed, Callable[[], None]], _Watcher] = _watcher
    _watcher: _Watcher | None = None
    _watches: dict[str, _Watch] = field(default_factory=dict)

    def start(self) -> None:
        try:
            self._watcher = self.make(self.changed, self.overflowed)
            self.problem = ""
        except OSError as problem:
            self._watcher = None
            self.problem = f"No watching at all: changes are found by rescans. {_remedy(problem)}"

    def stop(self) -> None:
        if self._watcher is not None:
            self._watcher.stop()
        self._watcher = None
        self._watches.clear()

    @property
    def watched(self) -> int:
        return len(self._watches)

    def watch_only(self, directories: set[str]) -> set[str]:
        """Watch exactly these directories from now on, and return those that were not watched."""
        if self._watcher is None:
            return set()
        self.problem = ""
        for path in set(self._watches) - directories:
            self._drop(path)
        return {path for path in sorted(directories) if self._watch(path)}

    def check(self) -> bool:
        """Drop dead watches or restart a dead watcher; return True if events may have been lost."""
        watcher = self._watcher
        if watcher is None:
            self.start()
            return self._watcher is not None
        if watcher.is_alive():
            dead = [
                path for path, item in self._watches.items() if not watcher.is_watching(item.token)
            ]
            for path in dead:
                self._drop(path)
            return bool(dead)
        directories = set(self._watches)
        self.stop()
        self.start()
        self.watch_only(directories)
        return True

    def _watch(self, path: str) -> bool:
        try:
            inode = os.stat(path).st_ino
        except OSError:
            self._drop(path)
            return False
        known = self._watches.get(path)
        if known is not None and known.inode == inode:
            return False
        # To schedule the path of a deleted directory again does nothing unless it is dropped first.
        self._drop(path)
        return self._schedule(path, inode)

    def _schedule(self, path: str, inode: int) -> bool:
        if self._watcher is None:
            return False
        try:
            # A watch on a symlink gives no events at all.
            token = self._watcher.add(os.path.realpath(path))
        except (OSError, RuntimeError) as problem:  # no more watches, or no more threads
            text = f"{path} is not watched: its changes are found by rescans. {_remedy(problem)}"
            self.problem = self.problem or text
            return False
        self._watches[path] = _Watch(token, inode)
        return True

    def _drop(self, path: str) -> None:
        known = self._watches.pop(path, None)
        if known is not None and self._watcher is not None:
            self._watcher.remove(known.token)
