"""Turns texts of a session into lines of a handoff: bounded prose without repeats. Pure."""

import re
from collections.abc import Iterable

from handoffd.session.text import clean, keep, shorten

ITEM_MAX = 300
NAMES_MAX = 5
# Two texts are the same if the longer one contains the shorter one of at least this length.
SAME_MIN = 20

_CLIENTS = re.compile(
    r"<(?P<name>system-reminder|command-\w+|local-command-\w+|bash-\w+|task-notification"
    r"|tool_use_error|user-prompt-submit-hook|handoffd-context)\b.*?</(?P=name)>"
)
_MARKUP = re.compile(r":?\s*</?[A-Za-z][\w:-]*\s[^<>]*=.*")
_PAIR = re.compile(r"<(?P<name>[A-Za-z][\w:-]*)>(?P<text>.*?)</(?P=name)>")
_CLOSING = re.compile(r"</[A-Za-z][\w:-]*\s*>")
_TAG = re.compile(r"(?P<glued>[\w/.:-])?<(?P<name>[A-Za-z!][^<>=]{0,60}?)\s?/?>(?P<on>[\w/.-])?")
_JSON = re.compile(
    r"""[\[{]\s*(?:[\[{]\s*)*(?P<quote>\\?["'])[^"']{1,80}(?P=quote)\s*(?::|,\s*["'{\[\d])"""
    r"(?:.*[}\]]|.*\Z)"
)
_FENCED = re.compile(r"```.*?(?:```|\Z)")
_TABLE = re.compile(r"\s*\||.*\|\s*:?-{3,}")
# A shell's prompt: the rest was pasted from a terminal.
_PASTED = re.compile(r"(?:[❯$➜%»]|PS [A-Z]:\\[^>]*>|\S+@\S+[:~]\S*[$#%]) ")
_MARKS = re.compile(r"\A(?:[-*+>#]+\s+)+")


def prose(text: str) -> str:
    """Return a text as one line of prose, or an empty text if it is not prose."""
    line = " ".join(clean(text).split())
    if _TABLE.match(line) or _PASTED.match(line):
        return ""
    line = _JSON.sub("…", _FENCED.sub("…", _CLIENTS.sub(" ", line)))
    line = _PAIR.sub(r"\g<text>", _MARKUP.sub("", line))
    line = _TAG.sub(_untagged, _CLOSING.sub(" ", line))
    line = keep(_MARKS.sub("", line.strip()), ITEM_MAX)
    return line if any(letter.isalnum() for letter in line) else ""


def _untagged(tag: re.Match[str]) -> str:
    """Return a tag in words: a type of List<String> and a <place> in a path are not markup."""
    glued, name, on = tag["glued"] or "", tag["name"], tag["on"] or ""
    if glued.isalnum() and name[0].isupper():
        return tag[0]
    return f"{glued}{{{name}}}{on}" if glued or on else name


def listed(before: str, names: Iterable[str], between: str = ", ") -> str:
    """Return the first names that fit into a line, and how many more there are."""
    found = [keep(name, ITEM_MAX) for name in names]
    for shown in range(min(len(found), NAMES_MAX), 0, -1):
        more = f" (+{len(found) - shown} more)" if len(found) > shown else ""
        line = before + between.join(found[:shown]) + more
        if len(line) <= ITEM_MAX:
            return line
    return shorten(before + between.join(found), ITEM_MAX)


def same(one: str, other: str) -> bool:
    """Return True if two lines say the same, or if one contains the other."""
    short, long = sorted((_bare(one), _bare(other)), key=len)
    return short == long or (len(short) >= SAME_MIN and short in long)


def _bare(line: str) -> str:
    return " ".join(re.findall(r"\w+", line.casefold()))


def drop_repeats(lines: Iterable[str], said: list[str]) -> list[str]:
    """Return the lines that are not in `said` yet, and add them to it."""
    new: list[str] = []
    for line in lines:
        if line and not any(same(line, one) for one in said):
            new.append(line)
            said.append(line)
    return new
