"""Choose the transcript to read next: growing ones first and in turns, then the newest."""

import asyncio
import heapq
import itertools
import os
from collections.abc import Iterator
from dataclasses import dataclass, field

from handoffd.ingest.counters import Counters
from handoffd.ingest.tailer import Comparison
from handoffd.runtime import memory
from handoffd.store.cursor import Cursor

LIVE, RECENT, OLD = 0, 1, 2
_FIRST = -(1 << 63)
# After so many turns without a pause, memory pages that only reading needed are given back.
LONG_TURNS = 20


@dataclass(slots=True)
class KnownTranscript:
    """A known transcript: the read position, and the file's size and time at the last look."""

    cursor: Cursor
    size: int = 0
    mtime_ns: int = 0
    read_to: int = 0
    failures: int = 0
    refusal: str = ""
    # The project of a transcript that we may not read, so that it need not be looked up again.
    root: str = ""
    # Set if the file was written to and has the same size as before.
    comparison: Comparison | None = None
    # The number of the last scan that found the file.
    scan: int = 0

    def share_numbers(self) -> None:
        """Keep one object for equal numbers: they are equal once a transcript is fully read."""
        cursor = self.cursor
        if self.size == cursor.offset:
            self.size = cursor.offset
        self.read_to = 0 if self.read_to == cursor.offset else self.read_to
        if self.mtime_ns == cursor.mtime_ns:
            self.mtime_ns = cursor.mtime_ns

    @property
    def lag_bytes(self) -> int:
        """The bytes that are still to be read; an unfinished line that was read is not counted."""
        return 0 if self.refusal else max(self.size - max(self.cursor.offset, self.read_to), 0)

    @property
    def size_now(self) -> int:
        try:
            return os.stat(self.cursor.path, follow_symlinks=False).st_size
        except OSError:
            return self.size


@dataclass(slots=True)
class UnsavedReading:
    """A transcript of which more was read than is stored, and the counters before that."""

    name: str
    entry: KnownTranscript
    counters: Counters
    slices: int = 0


@dataclass(slots=True)
class Backlog:
    """The transcripts that are not fully read, the most important one first."""

    _heap: list[tuple[int, int, str]] = field(default_factory=list)
    _waiting: dict[str, int] = field(default_factory=dict)
    _turns: Iterator[int] = field(default_factory=itertools.count)
    _added: asyncio.Event = field(default_factory=asyncio.Event)
    _turns_without_pause: int = 0

    def __len__(self) -> int:
        return len(self._heap)

    @property
    def names(self) -> list[str]:
        return list(self._waiting)

    def add(self, name: str, priority: int, mtime_ns: int, *, first: bool = False) -> None:
        """Queue a transcript, unless it is already queued with the same or a higher priority.

        With `first`, the transcript is placed before all others of its priority.
        """
        if self._waiting.get(name, OLD + 1) <= priority:
            return
        self._waiting[name] = priority
        # Growing transcripts take turns; old ones are read one by one, the newest first.
        order = _FIRST if first else next(self._turns) if priority == LIVE else -mtime_ns
        heapq.heappush(self._heap, (priority, order, name))
        self._added.set()

    def pop(self) -> tuple[str, int] | None:
        """Return the next transcript and its priority; None if it has been queued again since."""
        priority, _, name = heapq.heappop(self._heap)
        if self._waiting.get(name) != priority:
            return None
        del self._waiting[name]
        return name, priority

    async def wait(self) -> None:
        """Wait until there is a transcript to read."""
        self._turns_without_pause += 1
        if not self._heap:
            if self._turns_without_pause > LONG_TURNS:
                memory.give_back()
            self._turns_without_pause = 0
            self._added.clear()
            await self._added.wait()
