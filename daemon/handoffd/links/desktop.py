"""A notification on the desktop, if there is one: best effort, and never blocking for long."""

import contextlib
import os
import sys

from handoffd.links import program
from handoffd.runtime import clock

TIMEOUT_SECONDS = 2.0
TITLE_MAX = 100
TEXT_MAX = 400
_OUTPUT_MAX_BYTES = 4096
# Variables by which a service manager addresses only us.
_NOT_PASSED_ON = ("LISTEN_", "NOTIFY_", "WATCHDOG_")
_ON_A_DESKTOP = ("DISPLAY", "WAYLAND_DISPLAY", "DBUS_SESSION_BUS_ADDRESS")
# The texts are passed as arguments: a text inside the script could be run as a script.
_SCRIPT = (
    "on run argv",
    "display notification (item 2 of argv) with title (item 1 of argv)",
    "end run",
)


def notify(title: str, text: str) -> None:
    """Show a text to the user of this machine; do nothing without a desktop."""
    environment = _environment()
    words = _command(_plain(title, TITLE_MAX), _plain(text, TEXT_MAX), environment)
    if not words:
        return
    with contextlib.suppress(program.ProgramError):
        deadline = clock.monotonic() + TIMEOUT_SECONDS
        program.run(words, deadline, environment, most_bytes=_OUTPUT_MAX_BYTES)


def _environment() -> dict[str, str]:
    """Return the environment, with the session bus, whose address a service often lacks."""
    kept = {key: os.environ[key] for key in os.environ if not key.startswith(_NOT_PASSED_ON)}
    bus = f"/run/user/{os.getuid()}/bus"
    if sys.platform != "darwin" and os.path.exists(bus):
        kept.setdefault("DBUS_SESSION_BUS_ADDRESS", f"unix:path={bus}")
    return kept


def _command(title: str, text: str, environment: dict[str, str]) -> list[str]:
    if sys.platform == "darwin":
        script = [word for line in _SCRIPT for word in ("-e", line)]
        return ["osascript", *script, title, text]
    if not any(environment.get(name) for name in _ON_A_DESKTOP):
        return []
    return ["notify-send", "--app-name=handoffd", "--", title, _without_markup(text)]


def _plain(text: str, most: int) -> str:
    """Return a text as one line that no program can mistake for an option."""
    line = "".join(char if char.isprintable() else " " for char in text[: 4 * most])
    line = " ".join(line.split()).lstrip("-").lstrip()
    return (line if len(line) <= most else f"{line[: most - 1]}…") or "handoffd"


def _without_markup(text: str) -> str:
    """Escape characters that a notification server would read as markup."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
