"""The position up to which a transcript was read."""

import sys
from dataclasses import dataclass


@dataclass(slots=True, init=False)
class Cursor:
    """The position up to which a transcript was read, and the data that identify its file.

    Device and inode do not identify it: ext4 gives a new file the inode of one just deleted. There
    is one cursor per transcript in memory, so cursors share equal texts.
    """

    transcript: str
    session_id: str
    # The directory, as one shared text for all transcripts in it, or the whole path of the
    # transcript of a sub-agent.
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
