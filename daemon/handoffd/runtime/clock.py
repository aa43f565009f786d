"""The one module that reads the clocks."""

import re
import time
from datetime import UTC, datetime

DAY_SECONDS = 24 * 3600.0
_ISO_CHARACTERS = re.compile(r"[-+0-9:.,WTtZz ]+")


def wall() -> float:
    return time.time()


def monotonic() -> float:
    return time.monotonic()


def since_boot() -> float:
    """Return a time that cannot be set and that, on Linux, advances while the machine sleeps."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def thread_cpu() -> float:
    return time.thread_time()


def iso(seconds: float | None = None) -> str:
    """Return a time as ISO 8601 in UTC, to the second, with a Z."""
    moment = datetime.fromtimestamp(wall() if seconds is None else seconds, UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def iso_milliseconds(seconds: float | None = None) -> str:
    """Return a time in the format of transcripts, so that the two can be compared as text."""
    moment = datetime.fromtimestamp(wall() if seconds is None else seconds, UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"


def iso_after(earlier: str) -> str:
    """Return the time now to the millisecond, or the millisecond after `earlier` if that is later.

    A time that lies more than a day ahead is a mistake, and is not continued.
    """
    now = int(wall() * 1000)
    try:
        # A time without a zone is the machine's own.
        last = round(datetime.fromisoformat(earlier).timestamp() * 1e6) // 1000
    except (ValueError, OverflowError, OSError):
        last = 0
    if now <= last < now + DAY_SECONDS * 1000:
        now = last + 1
    return iso_milliseconds(now / 1000)


def day(seconds: float | None = None) -> str:
    """Return the local day: YYYY-MM-DD in the time zone of the machine."""
    moment = datetime.fromtimestamp(wall() if seconds is None else seconds, UTC).astimezone()
    return moment.strftime("%Y-%m-%d")


def is_iso(text: str) -> bool:
    """Return True if a text is a time in ISO 8601; a blank may stand for the T."""
    if not _ISO_CHARACTERS.fullmatch(text):  # Python accepts any character in place of the T
        return False
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def parse(text: str) -> float:
    """Return the seconds of an ISO time, or 0 if the text is not a time."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return 0.0
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
