"""The log of a database (-wal), frame by frame, as SQLite itself does not read it.

SQLite takes the log up to the first frame whose checksum does not fit, and goes on as if there
were nothing behind it. Here every frame is looked at for itself: its checksum is made from the
one that the frame before it states, so one damaged frame does not hide the next.
"""

import errno
import struct
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import BinaryIO

LOG = "-wal"
_MAGIC = (0x377F0682, 0x377F0683)
_VERSION = 3007000
_HEADER, _FRAME = struct.Struct(">8I"), struct.Struct(">6I")
_PAGE_BYTES = 4096
# Frames that are looked at together: their checksums are made side by side, in the lanes of
# one large number, which is ten times as quick as one by one.
_LANES = 128
# A sum grows by less than three times a step, and has 32 bits to grow into.
_STEPS = 16
_PIECE_BYTES = 1 << 20
# Where a database says whether it has a log.
_FORMAT_OFFSET = 18


@dataclass(frozen=True, slots=True)
class Frame:
    """`page` is the number of the page it holds; `commit` is the size of the database in pages.

    `ours`: it belongs to this run of the log. `good`: its checksum fits as well.
    """

    offset: int
    page: int
    commit: int
    ours: bool
    good: bool


@dataclass(frozen=True, slots=True)
class Head:
    raw: bytes
    page_bytes: int
    big_endian: bool
    salts: tuple[int, int]
    whole: bool


@dataclass(slots=True)
class Patched:
    """What became of a log: how many frames were taken, and which could not be.

    `stale` are the pages of which only an older state could be had; None stands for one whose
    number cannot be read, either.
    """

    taken: int = 0
    damaged: list[int] = field(default_factory=list)
    stale: set[int | None] = field(default_factory=set)


def find_gap(path: str) -> str:
    """Return what is wrong in the middle of the log of a database, or nothing.

    Others may write to it meanwhile. What is bad is read again after what lies behind it was
    seen, and must be so still: it was written first, unless the log was begun anew.
    """
    try:
        with open(path + LOG, "rb") as stream:
            head, number = _gap(stream)
            if number is None or (head, number) != _gap(stream):
                return ""
            if _head(stream) != head:
                return ""
    except FileNotFoundError:
        return ""
    except OSError as problem:
        if problem.errno != errno.EIO:
            raise
        return "its log cannot be read"
    return f"frame {number + 1} of its log is damaged, and more was kept after it"


def patch(path: str, target: BinaryIO) -> Patched:
    """Write a database as it was last, with every frame of its log that can be read."""
    with open(path, "rb") as source:
        while piece := source.read(_PIECE_BYTES):
            target.write(piece)
    with open(path + LOG, "rb") as stream:
        head = _head(stream)
        found = _apply(stream, head, target) if head else Patched()
    target.seek(_FORMAT_OFFSET)
    target.write(b"\1\1")  # or SQLite would look for a log
    return found


def _apply(stream: BinaryIO, head: Head, target: BinaryIO) -> Patched:
    frames = list(_frames(stream, head))
    while frames and not (frames[-1].good and frames[-1].commit):
        frames.pop()
    found, pages = _sort(frames)
    for page, frame in pages.items():
        stream.seek(frame.offset + _FRAME.size)
        target.seek((page - 1) * head.page_bytes)
        target.write(stream.read(head.page_bytes))
    if frames:
        target.truncate(frames[-1].commit * head.page_bytes)
    return found


def _sort(frames: list[Frame]) -> tuple[Patched, dict[int, Frame]]:
    """Tell what can be had of a log: the last good frame of each page."""
    found, pages = Patched(), dict[int, Frame]()
    last = frames[-1].commit if frames else 0
    for number, frame in enumerate(frames):
        known = frame.ours and frame.page <= last
        if frame.good:
            found.taken += 1
            found.stale.discard(frame.page)
            if known:
                pages[frame.page] = frame
        else:
            found.damaged.append(number + 1)
            found.stale.add(frame.page if known else None)
    return found, pages


def _gap(stream: BinaryIO) -> tuple[Head | None, int | None]:
    """Return the first bad frame, counted from 0, if what was committed after it is there.

    The end of what fits is no damage as such: behind it lies what an earlier run of the log
    left. Nor is a last transaction of which some frames, even the one that commits it, came to
    the disk and others did not: without power they come in any order, and nobody was told yet
    that it is kept. But a frame that goes on from one that commits was written when all before
    it was on disk, so whatever does not fit there was kept once.
    """
    head, bad, committed = _head(stream), None, False
    if head is None:
        return None, None
    for number, frame in enumerate(_frames(stream, head)):
        if bad is None and (not frame.good or not head.whole):
            bad = number
        if bad is not None and committed and frame.good:
            return head, bad
        committed = bad is not None and frame.ours and frame.commit > 0
    return head, None


def _head(stream: BinaryIO) -> Head | None:
    """Read the beginning of a log; where it is garbled, the first frame says how to go on."""
    stream.seek(0)
    raw = stream.read(_HEADER.size)
    if len(raw) < _HEADER.size:
        return None
    magic, version, page_bytes, _count, *salts, one, two = _HEADER.unpack(raw)
    big_endian = magic == _MAGIC[1]
    whole = (
        magic in _MAGIC
        and version == _VERSION
        and (one, two) == _sums([raw[:24]], [(0, 0)], big_endian=big_endian)[0]
    )
    if not whole:
        page_bytes, first = _PAGE_BYTES, stream.read(_FRAME.size)
        if len(first) < _FRAME.size:
            return None
        salts = list(_FRAME.unpack(first)[2:4])
    return Head(raw, page_bytes, big_endian, (salts[0], salts[1]), whole)


def _frames(stream: BinaryIO, head: Head) -> Iterator[Frame]:
    """Yield every frame that is there as a whole, whatever is in it."""
    size = _FRAME.size + head.page_bytes
    seed: tuple[int, int] = _HEADER.unpack(head.raw)[6:]
    offset = _HEADER.size
    stream.seek(offset)
    while data := stream.read(size * _LANES):
        count = len(data) // size
        heads = [_FRAME.unpack_from(data, number * size) for number in range(count)]
        stated = [(found[4], found[5]) for found in heads]
        ours = [found[2:4] == head.salts and found[0] > 0 for found in heads]
        fits = [False] * count
        if any(ours):  # what an earlier run left costs nothing
            parts = [_summed(data, number * size, size) for number in range(count)]
            sums = _sums(parts, [seed, *stated[:-1]], big_endian=head.big_endian)
            fits = [one == two for one, two in zip(sums, stated, strict=True)]
        for number, (page, commit, *_) in enumerate(heads):
            good = ours[number] and fits[number]
            yield Frame(offset + number * size, page, commit, ours[number], good)
        if count < _LANES:
            return
        seed, offset = stated[-1], offset + count * size


def _summed(data: bytes, start: int, size: int) -> bytes:
    """Return the bytes of a frame that its checksum is made of."""
    return data[start : start + 8] + data[start + _FRAME.size : start + size]


def _sums(
    parts: list[bytes], seeds: list[tuple[int, int]], *, big_endian: bool
) -> list[tuple[int, int]]:
    """Return the checksum of each part, all of one length; each has a lane of 64 bits."""
    count, steps = len(parts), len(parts[0]) // 8
    words = array("I", b"".join(parts))
    if big_endian:
        words.byteswap()
    pairs = array("Q", words.tobytes())
    low = int.from_bytes(b"\xff\xff\xff\xff\0\0\0\0" * count, "little")
    one, two = (_lanes([seed[place] for seed in seeds]) for place in (0, 1))
    for step in range(steps):
        pair = int.from_bytes(pairs[step::steps].tobytes(), "little")
        one += (pair & low) + two
        two += (pair >> 32 & low) + one
        if step % _STEPS == 0:
            one, two = one & low, two & low
    return list(zip(_numbers(one & low, count), _numbers(two & low, count), strict=True))


def _lanes(numbers: list[int]) -> int:
    return int.from_bytes(struct.pack(f"<{len(numbers)}Q", *numbers), "little")


def _numbers(lanes: int, count: int) -> tuple[int, ...]:
    return struct.unpack(f"<{count}Q", lanes.to_bytes(count * 8, "little"))
