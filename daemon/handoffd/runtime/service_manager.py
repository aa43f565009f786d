"""What a service manager wants to hear, and the socket it may hand over."""

import os
import socket

_LISTEN_FDS_START = 3


def notify(message: str) -> None:
    """Tell systemd, if it asked; never fail for it."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        try:
            sender.sendto(
                message.encode(), address.replace("@", "\0", 1) if address[0] == "@" else address
            )
        except OSError:
            return


def watchdog_seconds() -> float:
    """Return how often to say that we live: half of what was asked for, or 0."""
    asked = os.environ.get("WATCHDOG_USEC", "")
    meant = os.environ.get("WATCHDOG_PID", str(os.getpid()))
    return int(asked) / 2e6 if asked.isdigit() and meant == str(os.getpid()) else 0.0


def activated_socket() -> socket.socket | None:
    """Return the listening socket that systemd opened for us, if it did."""
    if os.environ.get("LISTEN_PID") != str(os.getpid()) or os.environ.get("LISTEN_FDS") != "1":
        return None
    os.set_inheritable(_LISTEN_FDS_START, False)
    handed = socket.socket(fileno=_LISTEN_FDS_START)
    if handed.family != socket.AF_UNIX:
        handed.close()
        return None
    return handed
