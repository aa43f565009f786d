"""The private directories of the daemon."""

import os

from handoff.common import paths
from handoff.common.errors import HandoffError


def make_state_dir() -> str:
    """Create the state directory with mode 0700; refuse one that other users may write to."""
    path = paths.state_dir()
    os.makedirs(path, mode=0o700, exist_ok=True)
    make_private(path)
    return path


def make_private(path: str) -> None:
    """Create a private directory; refuse one that other users may write to.

    The mode is tightened only if the directory or its parent is called `handoffd`:
    HANDOFFD_SOCKET may lie in any other directory.
    """
    os.makedirs(path, mode=0o700, exist_ok=True)
    if not paths.is_own_directory(path):
        raise HandoffError(
            f"{path} is not a directory of this user.",
            "Remove it, or choose another place with XDG_STATE_HOME or HANDOFFD_SOCKET.",
        )
    mode = os.lstat(path).st_mode
    if mode & 0o077 and "handoffd" in path.split("/")[-2:]:
        os.chmod(path, 0o700)
    elif mode & 0o022:
        raise HandoffError(
            f"Other users may write to {path}.",
            "Choose a directory of your own with HANDOFFD_SOCKET.",
        )
