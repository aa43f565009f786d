"""Which sessions a client is running: Claude Code keeps `sessions/<pid>.json` while one does.

The file goes when the client ends in good order, and stays when it is killed. After `/clear` it
goes on naming the session that was cleared.
"""

import os
from collections.abc import Iterable
from typing import NamedTuple

from handoffd.agents.claude_code.client_files import read_json
from handoffd.runtime import clock

_FILES_MAX = 512
_WAITING_MAX = 300
# Of /proc/<pid>/stat, counted behind the name in brackets.
_STATE, _STARTED = 0, 19
# More than a clock is ever corrected by.
_LATER_SECONDS = 3600.0


class RunningClient(NamedTuple):
    """What a client says of the session it runs: whether it lives, and what it waits for."""

    alive: bool
    waiting_for: str = ""


def running(config_dirs: Iterable[str]) -> dict[str, RunningClient]:
    """Return every session that a client has claimed; of two claims the living one counts."""
    found: dict[str, RunningClient] = {}
    for directory in config_dirs:
        for path, pid in _claims(f"{directory}/sessions"):
            claim = read_json(path)
            session_id = claim.get("sessionId")
            if isinstance(session_id, str) and claim.get("pid", pid) == pid:
                mine = RunningClient(is_alive(pid, path), _waiting_for(claim))
                found[session_id] = max(mine, found.get(session_id, mine))
    return found


def _waiting_for(claim: dict[str, object]) -> str:
    if claim.get("status") != "waiting":
        return ""
    return str(claim.get("waitingFor") or "a person's answer")[:_WAITING_MAX]


def _claims(directory: str) -> list[tuple[str, int]]:
    """Return the files named after a process; what lies beside them is secret."""
    try:
        names = os.listdir(directory)
    except OSError:
        return []
    stems = [name.removesuffix(".json") for name in names if name.endswith(".json")]
    pids = [int(stem) for stem in stems if stem.isascii() and stem.isdigit() and len(stem) < 10]  # noqa: PLR2004  a pid
    return [(f"{directory}/{pid}.json", pid) for pid in pids[:_FILES_MAX]]


def is_alive(pid: int, claim: str) -> bool:
    """Tell whether the client that made a claim still lives."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, PermissionError, OverflowError):
        return False
    try:
        made = os.stat(claim).st_mtime
        with open(f"/proc/{pid}/stat", "rb") as stream:
            fields = stream.read(4096).rpartition(b")")[2].split()
        with open("/proc/uptime", "rb") as stream:
            up = float(stream.read(64).split()[0])
    except (OSError, ValueError, IndexError):
        return True  # no /proc here
    if fields[_STATE] in (b"Z", b"X"):
        return False
    started = clock.wall() - up + int(fields[_STARTED]) / os.sysconf("SC_CLK_TCK")
    # A process that is younger than the claim has only got its number.
    return started < made + _LATER_SECONDS
