"""Messages to a service manager, and the socket that it may pass to us."""

import os
import socket

_LISTEN_FDS_START = 3


def notify(message: str) -> None:
    """Send a message to systemd if it microseconds for messages; never raise an error."""
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
    """Return the interval of watchdog messages: half of the requested limit, or 0 for none."""
    microseconds = os.environ.get("WATCHDOG_USEC", "")
    pid = os.environ.get("WATCHDOG_PID", str(os.getpid()))
    return int(microseconds) / 2e6 if microseconds.isdigit() and pid == str(os.getpid()) else 0.0


def activated_socket() -> socket.socket | None:
    """Return the listening socket that systemd opened for us, or None."""
    if os.environ.get("LISTEN_PID") != str(os.getpid()) or os.environ.get("LISTEN_FDS") != "1":
        return None
    os.set_inheritable(_LISTEN_FDS_START, False)
    listener = socket.socket(fileno=_LISTEN_FDS_START)
    if listener.family != socket.AF_UNIX:
        listener.close()
        return None
    return listener
