"""Check the user at the other end of a Unix socket, before any of its bytes is parsed."""

import os
import socket
import struct
import sys


def peer_uid(connection: socket.socket) -> int | None:
    """Return the user id of the connected process; None if the kernel does not report it."""
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
    """Return True for our own user and for root, which can read everything anyway."""
    return peer_uid(connection) in (os.getuid(), 0)
