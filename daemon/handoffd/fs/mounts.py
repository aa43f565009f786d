"""Disks that come over a network: nobody tells what others write there, and they may not answer.

Whoever touches a file on a disk whose server is gone hangs, and cannot even be interrupted. So a
thread asks such a disk first, and what lies on it is left alone until that thread is back. Disks
of this machine are never asked. Only Linux says which disk is of which kind.
"""

import os
import re
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass

from handoff.common.errors import HandoffError
from handoffd.runtime import clock, log

SILENT = "its disk does not answer"
# How long the loop waits for an answer, once, and for how long it is believed: a disk that dies
# just then, with the loop on it, is the one that still holds us up.
PATIENCE_SECONDS = 0.25
BELIEVED_SECONDS = 0.0003
_TABLE = "/proc/self/mountinfo"
_REMOTE = re.compile(
    r"nfs4?|cifs|smb\w*|9p|virtiofs|afs|ceph|lustre|glusterfs|gpfs|beegfs|orangefs|ocfs2|gfs2"
    r"|coda|ncpfs|fuse|fuse\..*"
)
_OCTAL = re.compile(r"\\([0-7]{3})")


class SilentError(HandoffError):
    """What is asked for lies on a disk that does not answer."""

    def __init__(self, point: str) -> None:
        hint = "See whether its server runs; what lies elsewhere is looked after meanwhile."
        super().__init__(f"The disk at {point} does not answer.", hint)


@dataclass(slots=True)
class _Disk:
    asking: threading.Thread | None = None
    answered_at: float = float("-inf")


_disks: dict[str, _Disk] = {}
# Disks of this machine that are mounted below one of a network.
_local: set[str] = set()
_table = b""


def refresh() -> None:
    """Look again which disks there are."""
    global _table  # noqa: PLW0603  a process has one
    try:
        with open(_TABLE, "rb") as stream:
            found = stream.read()
    except OSError:
        return
    if found == _table:
        return
    _table = found
    points = _points(found.decode("utf-8", "surrogateescape"))
    remote = {point for point, is_remote in points.items() if is_remote}
    for gone in _disks.keys() - remote:
        del _disks[gone]
    for point in remote:
        _disks.setdefault(point, _Disk())
    _local.clear()
    _local.update(p for p in points.keys() - remote if any(_holds(above, p) for above in remote))


def _points(table: str) -> dict[str, bool]:
    """Return where disks are mounted, and whether they are a network's; the last one covers."""
    found = {}
    for line in table.splitlines():
        before, _, after = line.partition(" - ")
        if after:
            point = _OCTAL.sub(lambda code: chr(int(code[1], 8)), before.split(" ")[4])
            found[point] = bool(_REMOTE.fullmatch(after.partition(" ")[0]))
    return found


def _holds(point: str, path: str) -> bool:
    return path == point or path.startswith(f"{point.rstrip('/')}/")


def may_hang(path: str) -> bool:
    """Tell whether a path lies, or, where nobody says so, might lie on a network's disk."""
    return not sys.platform.startswith("linux") or bool(disk_of(path))


def disk_of(path: str) -> str:
    """Return the network's disk that a path lies on, or nothing."""
    if not _table:
        refresh()
    if not _disks:
        return ""
    nearest = max((p for p in (*_disks, *_local) if _holds(p, path)), key=len, default="")
    return "" if nearest in _local else nearest


def has_remote() -> bool:
    """Tell whether there is any disk of a network."""
    return bool(_disks)


def answers(path: str) -> bool:
    """Tell whether a path may be touched; a disk that was silent is asked by one thread only."""
    point = disk_of(path)
    return not point or _answers(point, _disks[point])


def require(path: str) -> None:
    """Refuse to touch what lies on a disk that does not answer."""
    if not answers(path):
        raise SilentError(disk_of(path))


def silent() -> list[str]:
    """Return the disks that do not answer."""
    return [point for point, disk in _disks.items() if disk.asking and disk.asking.is_alive()]


def _answers(point: str, disk: _Disk) -> bool:
    if clock.monotonic() - disk.answered_at < BELIEVED_SECONDS:
        return True
    first = disk.asking is None
    if disk.asking is None:
        disk.asking = threading.Thread(target=_ask, args=(point,), daemon=True)
        disk.asking.start()
        disk.asking.join(PATIENCE_SECONDS)
    if disk.asking.is_alive():
        if first:
            log.get().warning("disk_silent", disk=point)
        return False
    disk.asking, disk.answered_at = None, clock.monotonic()
    return True


def _ask(point: str) -> None:
    # What the kernel remembers of a file it tells without asking the server; not so of the disk.
    with suppress(OSError):
        os.statvfs(point)
