"""Find the transcripts and their changes. The rescan is the truth; a watch is only a hint."""

import os
import re
from collections.abc import Iterator

from handoffd.agents.agent import Transcript, stat_transcript
from handoffd.agents.claude_code.records import parse_line
from handoffd.runtime import clock

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}\Z")
_FIRST_LINE_MAX_BYTES = 64 << 10
_owners: dict[tuple[str, int], str] = {}


def project_directories(root: str) -> Iterator[str]:
    """Yield the directories below `<config>/projects`."""
    try:
        with os.scandir(root) as entries:
            yield from [entry.path for entry in entries if entry.is_dir()]
    except OSError:
        return


def in_directory(directory: str, now: float) -> Iterator[Transcript]:
    """Yield the transcripts of one project directory, including those of sub-agents."""
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
        # A session whose own file is old gets no new sub-agents: don't list them at each rescan.
        if now - newest.get(session_id, 0.0) < clock.DAY_SECONDS or session_id not in newest:
            yield from _subagents(f"{directory}/{session_id}", session_id)


def transcript_at(path: str) -> Transcript | None:
    """Return the transcript at a path that a watch reported."""
    stem = os.path.basename(path).removesuffix(".jsonl")
    if not _NAME.match(stem) or stem.startswith("agent-"):
        return None
    return stat_transcript(stem, stem, path)


def subagents_of(transcript: Transcript) -> Iterator[Transcript]:
    """Yield the sub-agents of a session that has just grown."""
    if transcript.name == transcript.session_id:
        yield from _subagents(transcript.path.removesuffix(".jsonl"), transcript.session_id)


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


def _subagents(companion: str, session_id: str) -> Iterator[Transcript]:
    """Yield the transcripts of a session's sub-agents, including those of its workflows."""
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
    """Return the session of a sub-agent's file in the old location, named by its first record."""
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
