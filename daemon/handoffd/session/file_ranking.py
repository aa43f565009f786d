"""Which files matter: those edited, those read and named again and again. Pure."""

import re
from posixpath import normpath

from handoffd.agents.events import Looked
from handoffd.session.state import FILES_MAX, File, Receipt, SessionState
from handoffd.session.text import PATH_MAX, keep

# How much a file matters: an edit as much as being read and named four times together.
EDITED, LOOKED_AT, HOT, AGED = 16, 4, 16, 4
MENTIONED_IN = 1024
_DRIVE = re.compile(r"[A-Za-z]:[\\/]")
_NOT_OURS = re.compile(r"/\.(?:claude|git)/|^(?:/private)?/(?:tmp|var)/")


def now(state: SessionState) -> int:
    """Return how many records there were so far: what happens later has a higher number."""
    return state.records + state.agent_records


def file_of(state: SessionState, path: str, source: Receipt) -> File:
    """Return what is known of a file, entering it; the least relevant one makes room."""
    for known in state.files:
        if known.path == path:
            break
    else:
        kept = keep(path, PATH_MAX)
        known = next((file for file in state.files if file.path == kept), None) or File(
            kept, source
        )
        if not known.at:
            state.files.append(known)
    known.at = now(state)
    if len(state.files) > FILES_MAX:
        state.files.remove(min(state.files[:-1], key=lambda file: (file.attention, file.at)))
    return known


def absolute_path(state: SessionState, path: str) -> str:
    """Return a path as the client tells it, from the session's directory; "" if that is unknown.

    After /clear the client states contents of files before it states the directory.
    """
    if path.startswith("/") or _DRIVE.match(path):
        return path
    return normpath(f"{state.cwd}/{path}") if state.cwd else ""


def is_ours(state: SessionState, path: str) -> bool:
    """Tell work from the client's own files and from what lies in temporary directories."""
    return path.startswith(f"{state.cwd}/") or not _NOT_OURS.search(path)


def looked(state: SessionState, event: Looked, source: Receipt) -> None:
    state.spoke_last = False
    name = event.path.rsplit("/", 1)[-1]
    # A search may be in a directory.
    if "." in name and is_ours(state, event.path):
        seen = source.observed
        file_of(state, event.path, seen).attention += LOOKED_AT


def mention(state: SessionState, text: str) -> None:
    """Note the files that a text names: what is talked about matters."""
    if "." not in text:
        return
    text = text[:MENTIONED_IN]
    for file in state.files:
        if file.attention < HOT:
            path = file.path
            if path[path.rfind("/") + 1 :] in text:
                file.attention += LOOKED_AT


def age_files(state: SessionState) -> None:
    """Let what was worked on before a compaction matter less than what comes after it."""
    for file in state.files:
        file.attention //= AGED


def short(state: SessionState, path: str) -> str:
    """Return a path as it is said: from the session's directory."""
    return path.removeprefix(f"{state.cwd}/")
