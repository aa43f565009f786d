"""Read the new lines of a growing file. The cost is proportional to the new bytes.

A tail holds the unfinished line in memory; the cursor stays at the start of that line, so a
restart loses nothing. This module does not know the meaning of a line.
"""

import hashlib
import os
import stat
import zlib
from collections import OrderedDict
from dataclasses import dataclass, field

from handoffd.store.cursor import Cursor

LINE_MAX_BYTES = 8 << 20
SLICE_BYTES = 256 << 10
_HEAD_BYTES = 1024
_TAIL_BYTES = 64
_DIGEST_BYTES = 8
_SUM_BYTES = 4
TAILS_MAX = 64


class Replaced(Exception):  # noqa: N818  an observation, not a failure
    """The file is no longer the one for which the cursor was made."""


@dataclass(slots=True)
class Slice:
    """Some whole lines with their offsets, and the cursor's next position."""

    lines: list[tuple[int, bytes]] = field(default_factory=list)
    end: int = 0
    oversized: int = 0
    more: bool = False


@dataclass(slots=True)
class Tail:
    """Reads one transcript onwards from its cursor."""

    cursor: Cursor
    _partial: bytearray = field(default_factory=bytearray)
    _position: int = -1
    _discarding: bool = False
    _oversized: bool = False
    # The checksum of every byte up to the position; None if some of them were not read.
    _sum: int | None = None

    @property
    def position(self) -> int:
        """The byte up to which the file was read; from the cursor on it is an unfinished line."""
        return max(self._position, self.cursor.offset)

    @property
    def holds_a_line(self) -> bool:
        """True if there is an unfinished line; without one the cursor alone is enough."""
        return bool(self._partial) or self._discarding

    @property
    def unfinished(self) -> bytes:
        """The line that has no end yet."""
        return bytes(self._partial)

    @property
    def pending_bytes(self) -> int:
        return len(self._partial)

    def read(self, ceiling: int | None = None) -> Slice:
        """Return the next slice; `ceiling` is the byte beyond which nothing may be read."""
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        handle = os.open(self.cursor.path, flags)
        try:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode):
                raise FileNotFoundError(self.cursor.path)
            self._verify(handle, status.st_size)
            self._find_position(handle, status.st_size)
            size = status.st_size if ceiling is None else min(status.st_size, ceiling)
            wanted = min(SLICE_BYTES, size - self._position)
            data = os.pread(handle, wanted, self._position) if wanted > 0 else b""
            taken = self._add_bytes(data)
            taken.more = self._position < size and bool(data)
            self._remember(handle, taken)
            self.cursor.mtime_ns = status.st_mtime_ns
        finally:
            os.close(handle)
        return taken

    def skip_to(self, offset: int) -> None:
        """Continue at a later byte without reading the bytes in between."""
        self._partial.clear()
        self._position, self._discarding, self._oversized = -1, False, False
        self.cursor.offset = offset
        handle = os.open(self.cursor.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            start = max(offset - _TAIL_BYTES, 0)
            self._set_tail(os.pread(handle, offset - start, start), None)
            self._remember(handle, Slice(end=offset))
        finally:
            os.close(handle)

    def _verify(self, handle: int, size: int) -> None:
        cursor = self.cursor
        if size < cursor.offset:
            raise Replaced
        if _digest(os.pread(handle, cursor.head_bytes, 0)) != (cursor.head or _digest(b"")):
            raise Replaced
        before = os.pread(handle, cursor.tail_bytes, cursor.offset - cursor.tail_bytes)
        if _digest(before) != (cursor.tail[:_DIGEST_BYTES] or _digest(b"")):
            raise Replaced

    def _find_position(self, handle: int, size: int) -> None:
        """Start at the cursor if memory holds no position, or not the file's unfinished line."""
        if 0 <= self._position <= size and self._is_partial_unchanged(handle):
            return
        self._partial.clear()
        self._discarding = self._oversized = False
        self._position = self.cursor.offset
        self._sum = _sum_of(self.cursor)
        if self._position and os.pread(handle, 1, self._position - 1) != b"\n":
            self._discarding = True  # the middle of a line, whose start may not be read

    def _is_partial_unchanged(self, handle: int) -> bool:
        """Return True if the file still holds the unfinished line: a writer may have removed it."""
        held = self._partial[-_TAIL_BYTES:]
        return os.pread(handle, len(held), self._position - len(held)) == held

    def _add_bytes(self, data: bytes) -> Slice:
        self._position += len(data)
        last = data.rfind(b"\n") + 1
        at_line = self._update_sum(data[:last])
        self._update_sum(data[last:])
        if not last:
            self._extend_partial(data)
            return Slice(end=self.cursor.offset)
        block = bytes(self._partial) + data[:last]
        start = self._position - len(data) + last - len(block)
        taken = Slice(end=start + len(block))
        if self._discarding:
            first = block.index(b"\n") + 1
            block, start = block[first:], start + first
            taken.oversized = int(self._oversized)
        self._discarding = self._oversized = False
        self._partial = bytearray(data[last:])
        self._split(block, start, taken)
        self._set_tail((block or data[:last])[-_TAIL_BYTES:], at_line)
        return taken

    def _update_sum(self, data: bytes) -> int | None:
        if self._sum is not None:
            self._sum = zlib.crc32(data, self._sum)
        return self._sum

    def _extend_partial(self, data: bytes) -> None:
        if self._discarding:
            return
        self._partial += data
        if len(self._partial) > LINE_MAX_BYTES:
            self._partial = bytearray()
            self._discarding = self._oversized = True

    def _split(self, block: bytes, start: int, taken: Slice) -> None:
        for line in block.split(b"\n")[:-1]:
            if len(line) > LINE_MAX_BYTES:
                taken.oversized += 1
            else:
                taken.lines.append((start, line))
            start += len(line) + 1

    def _set_tail(self, data: bytes, total: int | None) -> None:
        """Keep a digest of the last bytes before the cursor, and the sum of all bytes before it."""
        known = b"" if total is None else total.to_bytes(_SUM_BYTES)
        self.cursor.tail = _digest(data) + known
        self.cursor.tail_bytes = len(data)

    def _remember(self, handle: int, taken: Slice) -> None:
        """Advance the cursor, and complete the fingerprint of a file that was short before."""
        cursor = self.cursor
        cursor.offset = taken.end
        if cursor.head_bytes < min(_HEAD_BYTES, taken.end):
            head = os.pread(handle, min(_HEAD_BYTES, taken.end), 0)
            # All cursors share one number object: there are as many cursors as transcripts.
            length = _HEAD_BYTES if len(head) == _HEAD_BYTES else len(head)
            cursor.head, cursor.head_bytes = _digest(head), length


class Comparison:
    """Compares the bytes that were read of a file with its bytes now, one slice at a time.

    If a file was written to and did not become longer, nothing else shows a change in its middle.
    """

    def __init__(self, cursor: Cursor) -> None:
        self.cursor = cursor
        self._known, self._end = _sum_of(cursor), cursor.offset
        self._sum = self._position = 0

    def compare_slice(self) -> bool:
        """Compare the next slice, and return True if there is more to compare."""
        if self._known is None:
            return False
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        handle = os.open(self.cursor.path, flags)
        try:
            wanted = min(SLICE_BYTES, self._end - self._position)
            data = os.pread(handle, wanted, self._position)
        finally:
            os.close(handle)
        self._sum = zlib.crc32(data, self._sum)
        self._position += len(data)
        if data and self._position < self._end:
            return True
        if self._sum != self._known:
            raise Replaced
        return False


@dataclass(slots=True)
class Tails:
    """The tails that hold an unfinished line."""

    _known: OrderedDict[str, Tail] = field(default_factory=OrderedDict)

    def of(self, name: str, cursor: Cursor) -> Tail:
        known = self._known.get(name)
        if known is None or known.cursor is not cursor:
            known = self._known[name] = Tail(cursor)
        self._known.move_to_end(name)
        return known

    def drop(self, name: str) -> None:
        self._known.pop(name, None)

    def trim(self) -> None:
        """Limit the memory of unfinished lines; a dropped line is read again from its start."""
        held = sum(tail.pending_bytes for tail in self._known.values())
        while len(self._known) > TAILS_MAX or (held > 2 * LINE_MAX_BYTES and len(self._known) > 1):
            _, dropped = self._known.popitem(last=False)
            held -= dropped.pending_bytes


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=_DIGEST_BYTES).digest()


def _sum_of(cursor: Cursor) -> int | None:
    if not cursor.offset:
        return 0
    known = cursor.tail[_DIGEST_BYTES:]
    return int.from_bytes(known) if known else None
