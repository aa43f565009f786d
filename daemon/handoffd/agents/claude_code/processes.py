"""Find the sessions that clients are running: each client keeps a file `sessions/<pid>.json`.

Claude Code deletes the file when it ends normally; a killed client leaves it behind. After
`/clear` the file still names the session that was cleared.
"""

import os
from collections.abc import Iterable

from handoffd.agents.agent import RunningClient
from handoffd.agents.claude_code.client_files import read_json
from handoffd.runtime import clock

_FILES_MAX = 512
_WAITING_MAX = 300
# Fields of /proc/<pid>/stat, counted behind the name in brackets.
_STATE, _STARTED = 0, 19
# A clock is never corrected by more than this.
_LATER_SECONDS = 3600.0


def running_clients(config_dirs: Iterable[str]) -> dict[str, RunningClient]:
    """Return the client of each claimed session; of two claims, a living client's counts."""
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
    """Return the files that are named after a process; other files beside them are secret."""
    try:
        names = os.listdir(directory)
    except OSError:
        return []
    stems = [name.removesuffix(".json") for name in names if name.endswith(".json")]
    pids = [int(stem) for stem in stems if stem.isascii() and stem.isdigit() and len(stem) < 10]  # noqa: PLR2004  a pid
    return [(f"{directory}/{pid}.json", pid) for pid in pids[:_FILES_MAX]]


def is_alive(pid: int, claim: str) -> bool:
    """Return True if the client that made a claim is still alive."""
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
        return True  # this system has no /proc
    if fields[_STATE] in (b"Z", b"X"):
        return False
    started = clock.wall() - up + int(fields[_STARTED]) / os.sysconf("SC_CLK_TCK")
    # A process that is younger than the claim is another one that was given the same pid.
    return started < made + _LATER_SECONDS
