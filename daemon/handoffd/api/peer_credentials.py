"""Who is at the other end of a Unix socket: checked before a byte of it is parsed."""

import os
import socket
import struct
import sys


def peer_uid(connection: socket.socket) -> int | None:
    """Return the user of the process that connected, None if the kernel does not say."""
    try:
        if sys.platform == "darwin":
            # struct xucred from getsockopt(SOL_LOCAL, LOCAL_PEERCRED): version, uid, groups
            data = connection.getsockopt(0, 1, 76)
            return int(struct.unpack_from("=II", data)[1])
        data = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        return int(struct.unpack("3i", data)[1])
    except OSError:
        return None


def is_allowed(connection: socket.socket) -> bool:
    """Allow ourselves and root, who could read everything anyway."""
    return peer_uid(connection) in (os.getuid(), 0)
