"""Threads: conversations between Chat and Code, by id, with one read cursor per side.

Other packages know only the `ThreadStore`; store/core.py chooses the one that is used.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

ACTIVE, COMPLETED = "active", "completed"


@dataclass(frozen=True, slots=True)
class Thread:
    id: str
    title: str
    project: str | None
    chat_last_seen: int
    code_last_seen: int
    status: str
    created_at: str | None
    updated_at: str | None

    def last_seen(self, client: str) -> int:
        return self.code_last_seen if client == "code" else self.chat_last_seen


@dataclass(frozen=True, slots=True)
class ThreadEntry:
    seq: int
    handoff_id: str
    from_client: str
    type: str
    content: str
    created_at: str | None


@dataclass(frozen=True, slots=True)
class NewEntry:
    """An entry to be appended; a repeated call has the same `once`."""

    client: str
    type: str
    content: str
    at: str
    once: str = ""


@dataclass(frozen=True, slots=True)
class NewMark:
    """A side has read all entries, or those `up_to` one; a repeated call has the same `once`."""

    client: str
    up_to: int | None = None
    once: str = ""


@dataclass(frozen=True, slots=True)
class Counts:
    """The number of active threads, and of those with unread entries per side."""

    active: int
    unread_by_chat: int
    unread_by_code: int


class Unread(NamedTuple):
    """A thread with unread entries: their number, and the latest of them."""

    id: str
    number: int
    latest: int


Whole = tuple[Thread, list[ThreadEntry]]
Kept = tuple[str, str | None]


def size(content: str) -> int:
    return len(content.encode())


class ThreadStore(Protocol):
    """Stores threads; every method is one transaction, and several processes may use it at once.

    A method raises a ThreadError if the thread does not exist, or must not be completed but is.
    """

    def create(
        self, thread_id: str, title: str, project: str | None, new: NewEntry
    ) -> tuple[Thread, ThreadEntry]: ...

    def read(self, thread_id: str) -> Whole: ...

    def note_shown(self, thread_id: str, client: str, seq: int) -> None:
        """Store that a side was shown the entries up to this one, which its next write marks."""

    def add(self, thread_id: str, new: NewEntry, size_max: int) -> tuple[Thread, ThreadEntry]:
        """Append an entry, unless the thread would exceed `size_max` bytes.

        Its author's cursor moves past it, but not past an entry that the author was not shown.
        """

    def mark(self, thread_id: str, mark: NewMark, at: str) -> Thread: ...

    def close(self, thread_id: str, at: str, before: Callable[[Whole], Kept]) -> Thread:
        """Complete a thread; `before` gets the content that is about to be deleted.

        It may refuse by an error. It returns the title and the tag that the thread keeps.
        """

    def note_use(self, thread_id: str, project_id: str) -> bool:
        """Store that a project used a thread as Code; return False if that was known."""

    def users(self, thread_id: str) -> list[str]: ...

    def unread(self, project_id: str) -> list[Unread]: ...

    def counts(self) -> Counts: ...
