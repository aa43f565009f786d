"""Which transcripts there are, and which have changed. The rescan is the truth, a watch a hint."""

import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass

from handoffd.agents.claude_code.records import parse_line
from handoffd.runtime import clock

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}\Z")
_FIRST_LINE_MAX_BYTES = 64 << 10
_LINE_MAX_BYTES = 1 << 20
_owners: dict[tuple[str, int], str] = {}


@dataclass(slots=True)
class Transcript:
    """A file that was found; the name identifies it wherever it moves."""

    name: str
    session_id: str
    path: str
    size: int
    mtime_ns: int


def project_directories(root: str) -> Iterator[str]:
    """Yield the directories below `<config>/projects`."""
    try:
        with os.scandir(root) as entries:
            yield from [entry.path for entry in entries if entry.is_dir()]
    except OSError:
        return


def in_directory(directory: str, now: float) -> Iterator[Transcript]:
    """Yield the transcripts of one project directory, sub-agents' included."""
    companions = []
    newest: dict[str, float] = {}
    for entry in _entries(directory):
        if entry.name.endswith(".jsonl"):
            found = _main_or_old_agent(entry)
            if found is not None:
                newest[found.session_id] = found.mtime_ns / 1e9
                yield found
        elif _NAME.match(entry.name):
            companions.append(entry.name)
    for session_id in companions:
        # A session whose own file is old gets no new sub-agents: one stat less a rescan each.
        if now - newest.get(session_id, 0.0) < clock.DAY_SECONDS or session_id not in newest:
            yield from _agents(f"{directory}/{session_id}", session_id)


def at(path: str) -> Transcript | None:
    """Return the transcript at a path that a watch named."""
    stem = os.path.basename(path).removesuffix(".jsonl")
    if not _NAME.match(stem) or stem.startswith("agent-"):
        return None
    return revisit(stem, stem, path)


def revisit(name: str, session_id: str, path: str) -> Transcript | None:
    """Return a transcript that is known as it is now, at the price of one question."""
    try:
        status = os.stat(path, follow_symlinks=False)
    except OSError:
        return None
    if not stat.S_ISREG(status.st_mode):
        return None
    return Transcript(name, session_id, path, status.st_size, status.st_mtime_ns)


def agents_of(transcript: Transcript) -> Iterator[Transcript]:
    """Yield the sub-agents of a session that has just grown."""
    if transcript.name == transcript.session_id:
        yield from _agents(transcript.path.removesuffix(".jsonl"), transcript.session_id)


def line_at(path: str, offset: int) -> bytes:
    """Return the line that starts at a byte, or nothing if it cannot be read."""
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


def _entries(directory: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as entries:
            return list(entries)
    except OSError:
        return []


def _main_or_old_agent(entry: os.DirEntry[str]) -> Transcript | None:
    stem = entry.name.removesuffix(".jsonl")
    if not _NAME.match(stem):
        return None
    if not stem.startswith("agent-"):
        return _transcript(entry, stem, stem)
    found = _transcript(entry, stem, "")
    owner = _owner(entry.path, entry.inode()) if found else ""
    if found is None or not owner:
        return None
    found.name, found.session_id = f"{owner}/{stem}", owner
    return found


def _agents(companion: str, session_id: str) -> Iterator[Transcript]:
    """Yield the sub-agents' transcripts of a session, workflows' included."""
    below = [f"{companion}/subagents"]
    below += [entry.path for entry in _entries(f"{companion}/subagents/workflows")]
    for directory in below:
        for entry in _entries(directory):
            stem = entry.name.removesuffix(".jsonl")
            if stem.startswith("agent-") and entry.name != stem and _NAME.match(stem):
                found = _transcript(entry, f"{session_id}/{stem}", session_id)
                if found is not None:
                    yield found


def _transcript(entry: os.DirEntry[str], name: str, session_id: str) -> Transcript | None:
    try:
        if not entry.is_file(follow_symlinks=False):
            return None
        status = entry.stat(follow_symlinks=False)
    except OSError:
        return None
    return Transcript(name, session_id, entry.path, status.st_size, status.st_mtime_ns)


def _owner(path: str, inode: int) -> str:
    """Return the session of a sub-agent's file at its old place: its first record names it."""
    known = _owners.get((path, inode))
    if known is not None:
        return known
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        line = os.read(handle, _FIRST_LINE_MAX_BYTES).split(b"\n", 1)[0]
    finally:
        os.close(handle)
    records = parse_line(0, line).records
    session_id = records[0].session_id if records else ""
    if not _NAME.match(session_id):
        return ""
    _owners[path, inode] = session_id
    return session_id
