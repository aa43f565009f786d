"""Check that the daemon has read all transcripts; the disk is examined here as well."""

import os
import time
from typing import Any

from handoff.common.errors import EXIT_NOT_FRESH
from handoff.doctor.environment import Environment
from handoff.doctor.finding import Finding, age, bad, note, ok

# A transcript that grew this long ago and is still unread is not fresh.
FRESH_SECONDS = 10.0
_NAMED_MAX = 5
_COMPARED = 5
# The daemon lists at most this many transcripts.
_LISTED = 20
_WAIT = "Wait a moment; if it stays, see: handoff logs"


def examine(environment: Environment) -> list[Finding]:
    status = environment.status
    if not status:
        return []
    roots = [root["path"] for root in status["roots"]]
    seen = newest_on_disk(roots)
    found = _unfollowed(environment, roots)
    found += [
        note(f"{root['path']} is not there yet", "Start Claude Code once.")
        for root in status["roots"]
        if not root["exists"]
    ]
    if status["paused"]:
        paused = ", ".join("everything" if item == "*" else item for item in status["paused"])
        found.append(note(f"paused: {paused}", "Run: handoff unpause"))
    behind = _behind(status) + unnoticed(seen, environment.known.get("newest", []), time.time())
    return found + (behind or [ok(_summary(status, seen))])


def _behind(status: dict[str, Any]) -> list[Finding]:
    """Return the transcripts that are not read yet."""
    stale = [item for item in status["lag"] if item["seconds"] > FRESH_SECONDS]
    found = [
        bad(
            f"not fresh: {item['transcript']} is behind by {item['bytes']} bytes, "
            f"for {item['seconds']:.0f} s",
            _WAIT,
            EXIT_NOT_FRESH,
        )
        for item in stale[:_NAMED_MAX]
    ]
    if not status["first_scan_done"]:
        found.append(bad("not fresh: the first look is not done", _WAIT, EXIT_NOT_FRESH))
    return found


def newest_on_disk(roots: list[str]) -> list[tuple[float, str, int]]:
    """Return time, path and size of the transcripts that changed last, the newest first."""
    found: list[tuple[float, str, int]] = []
    for root in roots:
        for directory in _scan(root):
            for entry in _scan(directory.path) if directory.is_dir() else []:
                name = entry.name
                if name.endswith(".jsonl") and not name.startswith("agent-") and entry.is_file():
                    status = entry.stat()
                    found.append((status.st_mtime, entry.path, status.st_size))
        found = sorted(found, reverse=True)[:_COMPARED]
    return found


def _scan(path: str) -> list["os.DirEntry[str]"]:
    try:
        with os.scandir(path) as entries:
            return list(entries)
    except OSError:
        return []


def unnoticed(
    seen: list[tuple[float, str, int]], newest: list[dict[str, Any]], now: float
) -> list[Finding]:
    """Return the transcripts that grew unnoticed: the daemon's own figures would not show them."""
    if not newest:
        return []
    known = {item["transcript"]: item["bytes"] for item in newest}
    # A transcript that a full list leaves out may be known all the same.
    compared = [item for item in seen if item[1] in known or len(newest) < _LISTED]
    return [
        bad(
            f"not fresh: {path} grew by {size - known.get(path, 0)} bytes unnoticed, "
            f"{now - changed:.0f} s ago",
            "Run: handoff restart",
            EXIT_NOT_FRESH,
        )
        for changed, path, size in compared
        if now - changed > FRESH_SECONDS and size > known.get(path, 0)
    ]


def _unfollowed(environment: Environment, roots: list[str]) -> list[Finding]:
    """Return a finding if this shell's CLAUDE_CONFIG_DIR is not followed.

    A service does not have the variables of a shell.
    """
    directory = environment.claude.directory
    here = os.path.realpath(f"{directory}/projects")
    if not os.path.isdir(directory) or here in map(os.path.realpath, roots):
        return []
    text = f"{directory}, the CLAUDE_CONFIG_DIR of this shell, is not followed"
    remedy = f'[claude] config_dirs = ["{directory}"] in {environment.status["config"]}'
    return [bad(text, f"Put this there, then `handoff restart`: {remedy}")]


def _summary(status: dict[str, Any], seen: list[tuple[float, str, int]]) -> str:
    last = f"; the newest is {age(time.time() - seen[0][0])} old" if seen else ""
    return f"{status['transcripts']} transcripts, all read{last}"
