"""How far a transcript was read."""

import sys
from dataclasses import dataclass


@dataclass(slots=True, init=False)
class Cursor:
    """How far a transcript was read, and how to recognise it.

    Not by device and inode: ext4 gives a new file the inode of the one just deleted. There are as
    many cursors in memory as transcripts: what many have in common they share.
    """

    transcript: str
    session_id: str
    # The directory, one text for all that lie in it, or the whole path of a sub-agent's.
    _place: str
    offset: int
    head: bytes
    head_bytes: int
    tail: bytes
    tail_bytes: int
    mtime_ns: int

    def __init__(  # noqa: PLR0913, PLR0917  the columns of its table
        self,
        transcript: str,
        session_id: str,
        path: str,
        offset: int = 0,
        head: bytes = b"",
        head_bytes: int = 0,
        tail: bytes = b"",
        tail_bytes: int = 0,
        mtime_ns: int = 0,
    ) -> None:
        self.transcript = transcript
        self.session_id = transcript if session_id == transcript else session_id
        self.path = path
        self.offset, self.mtime_ns = offset, mtime_ns
        self.head, self.head_bytes = head, head_bytes
        self.tail, self.tail_bytes = tail, tail_bytes

    @property
    def path(self) -> str:
        place = self._place
        return f"{place}{self.transcript}.jsonl" if place.endswith("/") else place

    @path.setter
    def path(self, path: str) -> None:
        directory = path.removesuffix(f"{self.transcript}.jsonl")
        self._place = sys.intern(directory) if directory.endswith("/") else path
