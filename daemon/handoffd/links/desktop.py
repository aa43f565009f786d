"""A notification on the desktop, if there is one: best effort, never in anybody's way."""

import contextlib
import os
import sys

from handoffd.links import program
from handoffd.runtime import clock

TIMEOUT_SECONDS = 2.0
TITLE_MAX = 100
TEXT_MAX = 400
_OUTPUT_MAX_BYTES = 4096
# What a service manager said to us alone.
_NOT_FOR_OTHERS = ("LISTEN_", "NOTIFY_", "WATCHDOG_")
_ON_A_DESKTOP = ("DISPLAY", "WAYLAND_DISPLAY", "DBUS_SESSION_BUS_ADDRESS")
# The texts come as arguments: a text spliced into the script could be a script itself.
_SCRIPT = (
    "on run argv",
    "display notification (item 2 of argv) with title (item 1 of argv)",
    "end run",
)


def notify(title: str, text: str) -> None:
    """Show a text to whoever sits at this machine; where nobody can see it, nothing happens."""
    environment = _environment()
    words = _words(_plain(title, TITLE_MAX), _plain(text, TEXT_MAX), environment)
    if not words:
        return
    with contextlib.suppress(program.ProgramError):
        deadline = clock.monotonic() + TIMEOUT_SECONDS
        program.run(words, deadline, environment, most_bytes=_OUTPUT_MAX_BYTES)


def _environment() -> dict[str, str]:
    """Return a program's environment, with the session bus that a service often is not told of."""
    kept = {key: os.environ[key] for key in os.environ if not key.startswith(_NOT_FOR_OTHERS)}
    bus = f"/run/user/{os.getuid()}/bus"
    if sys.platform != "darwin" and os.path.exists(bus):
        kept.setdefault("DBUS_SESSION_BUS_ADDRESS", f"unix:path={bus}")
    return kept


def _words(title: str, text: str, environment: dict[str, str]) -> list[str]:
    if sys.platform == "darwin":
        script = [word for line in _SCRIPT for word in ("-e", line)]
        return ["osascript", *script, title, text]
    if not any(environment.get(name) for name in _ON_A_DESKTOP):
        return []
    return ["notify-send", "--app-name=handoffd", "--", title, _without_markup(text)]


def _plain(text: str, most: int) -> str:
    """Return a text as one line that no program takes for an option."""
    line = "".join(char if char.isprintable() else " " for char in text[: 4 * most])
    line = " ".join(line.split()).lstrip("-").lstrip()
    return (line if len(line) <= most else f"{line[: most - 1]}…") or "handoffd"


def _without_markup(text: str) -> str:
    """Escape what a notification server would take for a link or an image."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
