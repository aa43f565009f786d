"""Ages in texts that are read later than written: a mark holds the time, the reader says the age.

The hot path loads this module when the daemon does not answer, so it imports nothing.
"""

_MARK, _END = "{ago ", "}"
# Only these lines hold a mark of ours, before all words of others.
_DATED = ("## ", "**Handoff, ", "**Also unfinished (")
_HEADING = "## "
_UNITS = ((86400, "day"), (3600, "hour"), (60, "minute"))
_DAYS_FROM = 2


def ago(seconds: float) -> str:
    """Return an age in words: "21 minutes ago"."""
    for size, unit in _UNITS:
        number = int(seconds // size)
        if number >= (_DAYS_FROM if unit == "day" else 1):
            return f"{number} {unit}{'' if number == 1 else 's'} ago"
    return "just now"


def mark(at: float) -> str:
    """Return the mark for a time, in seconds since 1970; a rounded one could be in the future."""
    return f"{_MARK}{int(at)}{_END}"


def with_ages(text: str, now: float) -> str:
    """Return a text with an age in place of the mark of each dated line."""
    if _MARK not in text:
        return text
    lines = [_aged(line, now) if line.startswith(_DATED) else line for line in text.split("\n")]
    return "\n".join(lines)


def _aged(line: str, now: float) -> str:
    head, _, rest = line.partition(_MARK)
    number, end, tail = rest.partition(_END)
    return f"{head}{ago(now - int(number))}{tail}" if end and number.isdecimal() else line


def with_note(text: str, note: str) -> str:
    """Return a brief with a note below its heading, or unchanged if it has none."""
    head, found, rest = text.partition(f"\n{_HEADING}")
    if not found:
        return text
    title, _, body = rest.partition("\n")
    return f"{head}{found}{title}\n\n{note}\n{body.lstrip()}"
