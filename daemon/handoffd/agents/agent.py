"""The interface of a coding agent: the place and meaning of its transcripts, and its clients.

The rest of the daemon knows agents by this protocol, and gets them from agents/registry.py.
"""

import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from handoffd.agents.claude_code.records import Parsed, Record, is_absolute
from handoffd.config import Config

__all__ = (
    "Agent",
    "BackgroundJob",
    "Parsed",
    "Record",
    "RunningClient",
    "Task",
    "Transcript",
    "is_absolute",
)
_LINE_MAX_BYTES = 1 << 20


@dataclass(slots=True)
class Transcript:
    """A transcript file; its name identifies it even after the file has moved."""

    name: str
    session_id: str
    path: str
    size: int
    mtime_ns: int


class RunningClient(NamedTuple):
    """A client's claim to a session: whether the client is alive, and the answer it waits for."""

    alive: bool
    waiting_for: str = ""


class Task(NamedTuple):
    """One task as the client stored it, and the time of the file's last change."""

    mtime_ns: int
    data: dict[str, Any]


class BackgroundJob(NamedTuple):
    """A background agent: its session, its directory, its state, and what it was asked for."""

    session_id: str
    cwd: str
    state: str
    intent: str
    changed: float
    # It does no more work unless it is asked to.
    is_finished: bool


class Agent(Protocol):
    """One coding agent. A root is a directory below which transcripts of the agent lie.

    The directories that are scanned and watched are those that hold its transcripts; with most
    agents they are directly below a root.
    """

    name: str
    # The variables of a hook's environment that name the project, the session and our plugin.
    project_variable: str
    session_variable: str
    plugin_variable: str

    # Its transcripts

    def roots(self, config: Config) -> list[str]:
        """Return the roots of the user's own configuration."""

    def root_of(self, transcript: str) -> str:
        """Return the root of a transcript by its path alone, "" if it can be none of this agent."""

    def owns(self, path: str) -> bool:
        """Return True if a path can be a root or a transcript of this agent, by its name alone."""

    def directories(self, root: str) -> Iterator[str]:
        """Yield the directories below a root that may hold transcripts."""

    def in_directory(self, directory: str, now: float) -> Iterator[Transcript]:
        """Yield the transcripts of one directory, including those of sub-agents."""

    def transcript_at(self, path: str) -> Transcript | None:
        """Return the transcript at a path that a watch or a hook reported."""

    def subagents_of(self, transcript: Transcript) -> Iterator[Transcript]:
        """Yield the transcripts of a session's sub-agents."""

    def find(self, root: str, pattern: str) -> dict[str, str]:
        """Return the transcripts of sessions whose id matches a glob: their paths by session."""

    # The meaning of a line

    def decode(self, offset: int, line: bytes) -> Parsed:
        """Return the records of a line; never raise."""

    def words(self, record: Record) -> str:
        """Return the words of a record, as evidence for a value."""

    def treatment(self, record: Record) -> str:
        """Return the treatment of this type of records in words, for `handoffd replay --counts`."""

    # Its client

    def running_clients(self, roots: Iterable[str]) -> dict[str, RunningClient]:
        """Return the client of each session that a client claims to run."""

    def background_jobs(self, roots: Iterable[str], since: float) -> list[BackgroundJob]:
        """Return the background agents whose files changed since a time."""

    def tasks_changed_at(self, transcript: str, session_id: str) -> int:
        """Return the time of the last change to a session's task files; 0 if it has none."""

    def tasks(self, transcript: str, session_id: str) -> list[Task]:
        """Return the tasks of a session that the client keeps outside the transcript."""

    def keep_days(self, root: str) -> float | None:
        """Return the number of days after which the client deletes a transcript, if it does."""

    def plugin_version(self, plugin_root: str) -> str:
        """Return the version of our plugin in the client, or an empty text."""

    def is_headless(self, environment: dict[str, str]) -> bool:
        """Return True if a hook's environment says that a program runs the session."""


def stat_transcript(name: str, session_id: str, path: str) -> Transcript | None:
    """Return the current size and time of a known transcript, at the cost of one stat()."""
    try:
        status = os.stat(path, follow_symlinks=False)
    except OSError:
        return None
    if not stat.S_ISREG(status.st_mode):
        return None
    return Transcript(name, session_id, path, status.st_size, status.st_mtime_ns)


def line_at(path: str, offset: int) -> bytes:
    """Return the line that starts at a byte offset, or nothing if it cannot be read."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.pread(handle, _LINE_MAX_BYTES, offset).split(b"\n", 1)[0]
    except OSError:
        return b""
    finally:
        os.close(handle)
