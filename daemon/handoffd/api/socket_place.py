"""Choose the path of the socket: the first one that is ours and short enough."""

import os
import socket

from handoff.common import paths
from handoff.common.errors import HandoffError
from handoffd.runtime.directories import make_private


def usable_path() -> str:
    """Return the first path for the socket that is ours and short enough."""
    reasons = []
    for path in paths.socket_candidates():
        if len(os.fsencode(path)) > paths.SOCKET_PATH_MAX:
            reasons.append(f"{path} is longer than {paths.SOCKET_PATH_MAX} bytes")
            continue
        try:
            make_private(os.path.dirname(path))
        except (OSError, HandoffError) as problem:
            reasons.append(str(problem).splitlines()[0])
            continue
        return path
    raise HandoffError(
        "There is no place for the socket: " + "; ".join(reasons),
        "Set HANDOFFD_SOCKET to a short path in a directory of yours.",
    )


def is_served(path: str) -> bool:
    """Return True if a process listens at this path."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.settimeout(1.0)
            probe.connect(path)
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        except OSError:
            return True
        return True
