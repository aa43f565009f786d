"""Network disks: the kernel does not report writes of other machines, and a disk may not answer.

A process that touches a file on a disk whose server is gone hangs and cannot even be interrupted.
So a thread queries such a disk first, and files on it are left alone until that thread returns.
Local disks are never queried. Only Linux says which disk is of which kind.
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
# How long the event loop waits for the first answer of a disk, and how long an answer stays valid.
# A disk that dies within that validity, while the loop uses it, still blocks the daemon.
PATIENCE_SECONDS = 0.25
BELIEVED_SECONDS = 0.0003
_TABLE = "/proc/self/mountinfo"
_REMOTE = re.compile(
    r"nfs4?|cifs|smb\w*|9p|virtiofs|afs|ceph|lustre|glusterfs|gpfs|beegfs|orangefs|ocfs2|gfs2"
    r"|coda|ncpfs|fuse|fuse\..*"
)
_OCTAL = re.compile(r"\\([0-7]{3})")


class SilentError(HandoffError):
    """The requested file lies on a disk that does not answer."""

    def __init__(self, point: str) -> None:
        hint = "See whether its server runs; what lies elsewhere is looked after meanwhile."
        super().__init__(f"The disk at {point} does not answer.", hint)


@dataclass(slots=True)
class _Disk:
    query: threading.Thread | None = None
    answered_at: float = float("-inf")


_disks: dict[str, _Disk] = {}
# Local disks that are mounted below a network disk.
_local: set[str] = set()
_table = b""


def refresh() -> None:
    """Read the table of mounted disks again."""
    global _table  # noqa: PLW0603  one per process
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
    """Return each mount point, and True if its disk is a network disk.

    Of several disks on one mount point the last one counts, since it covers the others.
    """
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
    """Return True if a path lies on a network disk, or might lie on one: only Linux can tell."""
    return not sys.platform.startswith("linux") or bool(disk_of(path))


def disk_of(path: str) -> str:
    """Return the mount point of the network disk that holds a path, or an empty text."""
    if not _table:
        refresh()
    if not _disks:
        return ""
    nearest = max((p for p in (*_disks, *_local) if _holds(p, path)), key=len, default="")
    return "" if nearest in _local else nearest


def has_remote() -> bool:
    """Return True if any network disk is mounted."""
    return bool(_disks)


def answers(path: str) -> bool:
    """Return True if a path may be touched; one thread at most queries a silent disk."""
    point = disk_of(path)
    return not point or _answers(point, _disks[point])


def require(path: str) -> None:
    """Raise SilentError if a path lies on a disk that does not answer."""
    if not answers(path):
        raise SilentError(disk_of(path))


def silent() -> list[str]:
    """Return the disks that do not answer."""
    return [point for point, disk in _disks.items() if disk.query and disk.query.is_alive()]


def _answers(point: str, disk: _Disk) -> bool:
    if clock.monotonic() - disk.answered_at < BELIEVED_SECONDS:
        return True
    first = disk.query is None
    if disk.query is None:
        disk.query = threading.Thread(target=_query, args=(point,), daemon=True)
        disk.query.start()
        disk.query.join(PATIENCE_SECONDS)
    if disk.query.is_alive():
        if first:
            log.get().warning("disk_silent", disk=point)
        return False
    disk.query, disk.answered_at = None, clock.monotonic()
    return True


def _query(point: str) -> None:
    # The kernel may answer a stat of a file from its cache, but asks the server about the disk.
    with suppress(OSError):
        os.statvfs(point)
