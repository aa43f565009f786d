"""Check the state directory: its owner, its mode and its free space."""

import os

from handoff import local
from handoff.common import paths
from handoff.common.errors import HandoffError
from handoff.doctor.environment import Environment
from handoff.doctor.finding import Finding, bad, note, ok

# A transaction needs some space. Below _FULL_BYTES the daemon could soon keep nothing any more.
_FULL_BYTES = 20 << 20
_LOW_BYTES = 200 << 20


def examine(environment: Environment) -> list[Finding]:
    path = paths.state_dir()
    if not os.path.lexists(path):
        return []
    if not paths.is_own_directory(path):
        return [bad(f"{path} is no directory of yours", "Move it away, then: handoff restart")]
    found = []
    mode = os.stat(path).st_mode & 0o777
    if mode & 0o077:
        text = f"{path} is open to others (mode {mode:04o})"
        found.append(bad(text, f"Run: chmod 700 {path}"))
    if environment.problem is not None:  # a daemon that answers checks core.db itself
        found += _core_findings()
    disk = os.statvfs(path)
    if disk.f_flag & os.ST_RDONLY:
        text = f"the disk of {path} is read-only: nothing can be kept"
        return [*found, bad(text, "Mount it for writing.")]
    return found + judge_space(path, disk.f_bavail * disk.f_frsize)


def _core_findings() -> list[Finding]:
    try:
        core = local.daemon_code("repair").look()["core"]
    except HandoffError as problem:
        return [bad(problem.title, problem.hint)]
    if core is None:
        return []
    text = f"core.db is damaged ({core['problem']})"
    return [bad(text, "Run: handoff repair, or start the daemon, which mends it")]


def judge_space(path: str, free_bytes: int) -> list[Finding]:
    megabytes = f"{free_bytes >> 20} MB"
    if free_bytes < _FULL_BYTES:
        text = f"the disk of {path} has {megabytes} free; {_FULL_BYTES >> 20} are needed"
        return [bad(text, "Free some space.")]
    if free_bytes < _LOW_BYTES:
        return [note(f"the disk of {path} is nearly full ({megabytes} free)", "Free some space.")]
    return [ok(f"{path}, yours alone; {megabytes} free")]
