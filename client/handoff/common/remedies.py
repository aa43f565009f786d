"""The remedies for a disk that refuses a write."""

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
    """Return an error that names the path that could not be written, and the remedy."""
    return HandoffError(f"Cannot write {path}: {problem.strerror}.", remedy(problem))
