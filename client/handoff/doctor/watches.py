"""Report the kernel's limits on watched directories, and our share of them. Linux only.

A limit that is used up is a warning of the daemon itself (`watch-degraded`), with the remedy.
"""

from handoff.doctor.environment import Environment
from handoff.doctor.finding import Finding, ok

_LIMITS = "/proc/sys/fs/inotify"


def examine(environment: Environment) -> list[Finding]:
    return judge(_LIMITS, environment.status.get("watched"))


def judge(limits: str, ours: int | None) -> list[Finding]:
    found = []
    for name in ("watches", "instances"):
        try:
            with open(f"{limits}/max_user_{name}", encoding="ascii") as stream:
                found.append(f"{int(stream.read())} {name}")
        except (OSError, ValueError):
            return []
    mine = "" if ours is None else f"; {ours} of the watches are ours"
    return [ok(f"inotify: at most {' and '.join(found)} per user{mine}")]
