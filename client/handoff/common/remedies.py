"""What to do when a disk refuses to be written."""

import errno

from handoff.common.errors import HandoffError

_REMEDIES = {
    errno.ENOSPC: "Free some space.",
    errno.EDQUOT: "Free some space: your quota is used up.",
    errno.EROFS: "That disk is read-only: mount it for writing.",
    errno.EACCES: "See that it is yours, and that you may write there.",
    errno.EPERM: "See that it is yours, and that you may write there.",
    errno.EIO: "The disk is failing, or is gone: see dmesg.",
}


def remedy(problem: OSError) -> str:
    return _REMEDIES.get(problem.errno or 0, "")


def refused(problem: OSError, path: str) -> HandoffError:
    """Say what could not be written, and what to do about it."""
    return HandoffError(f"Cannot write {path}: {problem.strerror}.", remedy(problem))
