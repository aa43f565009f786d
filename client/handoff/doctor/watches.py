"""Check how near this user is to the kernel's limits on watched directories. Linux only."""

import contextlib
import os
import time

from handoff.doctor.environment import Environment
from handoff.doctor.finding import Finding, note, ok

_LIMITS = "sys/fs/inotify"
# From this share on, the kernel may refuse the next program.
_NEARLY = 0.9
# An editor may hold a hundred thousand watches; counting them must not take long.
_COUNTING_SECONDS = 0.5


def examine(environment: Environment) -> list[Finding]:
    return judge("/proc", os.getuid(), environment.status.get("watched"))


def judge(proc: str, user: int, ours: int | None) -> list[Finding]:
    limits = {}
    for name in ("instances", "watches"):
        try:
            with open(f"{proc}/{_LIMITS}/max_user_{name}", encoding="ascii") as stream:
                limits[name] = int(stream.read())
        except (OSError, ValueError):
            return []
    used, complete = count(proc, user)
    about = "" if complete else "at least "
    found = [
        note(
            f"{about}{used[name]} of {limit} inotify {name} are in use",
            f"sudo sysctl fs.inotify.max_user_{name}={max(limit * 4, 1024)} "
            "(for good: the same in a file of /etc/sysctl.d), then: handoff restart",
        )
        for name, limit in limits.items()
        if used[name] >= limit * _NEARLY
    ]
    mine = "" if ours is None else f", {ours} of them ours"
    text = (
        f"inotify: {about}{used['instances']} of {limits['instances']} instances, "
        f"{used['watches']} of {limits['watches']} watches{mine}"
    )
    return found or [ok(text)]


def count(proc: str, user: int) -> tuple[dict[str, int], bool]:
    """Count the inotify objects of this user's processes, as far as they may be examined.

    The second result is False if the count took too long and was stopped.
    """
    used = {"instances": 0, "watches": 0}
    deadline = time.monotonic() + _COUNTING_SECONDS
    for process in filter(str.isdigit, os.listdir(proc)):
        with contextlib.suppress(OSError):
            if os.stat(f"{proc}/{process}").st_uid == user:
                _add(used, f"{proc}/{process}")
        if time.monotonic() > deadline:
            return used, False
    return used, True


def _add(used: dict[str, int], process: str) -> None:
    for handle in os.listdir(f"{process}/fd"):
        with contextlib.suppress(OSError):
            if os.readlink(f"{process}/fd/{handle}").endswith("inotify"):
                used["instances"] += 1
                with open(f"{process}/fdinfo/{handle}", "rb") as stream:
                    used["watches"] += stream.read().count(b"inotify wd")
