"""Which files a list of patterns names, by the rules of the programs that read such lists."""

import re
from collections.abc import Iterable

# A class has an end in sight, so that brackets without one are not looked through again and again.
_PART = re.compile(r"\*\*/|/\*\*$|\*+|\?|\[[!^]?\]?[^\]/]{0,100}\]|\\.|.", re.DOTALL)
_SPAN = re.compile(r"(.)-(.)|(.)", re.DOTALL)


def is_ignored(lines: Iterable[str], path: str, *, anchored: bool = False) -> bool | None:
    """Tell what the last line that names a file says of it; None if none does.

    `anchored`: a pattern without a slash names what lies at the top only, as for docker.
    """
    said = None
    for line in lines:
        pattern = line.strip()
        negated = pattern.startswith("!")
        if pattern and not pattern.startswith("#") and names(pattern[negated:], path, anchored):
            said = not negated
    return said


def names(pattern: str, path: str, anchored: bool = False) -> bool:
    """Tell whether a pattern names a file, or a directory above it."""
    body = pattern.removeprefix("./").strip("/")
    if not body:
        return False
    everywhere = not anchored and "/" not in pattern.rstrip("/")
    starts = {0, *(_behind_slashes(path, 0) if everywhere else ())}
    below = ("/",) if pattern.endswith("/") else ("/", "")
    return any(path[end : end + 1] in below for end in ends(body, path, starts))


def ends(pattern: str, path: str, starts: Iterable[int] = (0,)) -> set[int]:
    """Return where in a path a glob may end that begins at one of some places.

    It goes all ways at once, and takes time in proportion to the glob, whatever that is made of.
    """
    places = set(starts)
    for part in _PART.finditer(pattern):
        if not places:
            break
        places = _after(part[0], path, places)
    return places


def _after(part: str, path: str, places: set[int]) -> set[int]:
    if part == "**/":  # any number of directories
        return places | _behind_slashes(path, min(places))
    if part == "/**":
        behind = {place + 1 for place in places if path[place : place + 1] == "/"}
        return set(range(min(behind), len(path) + 1)) if behind else behind
    if not part.strip("*"):
        return _within_names(path, places)
    allowed = _allowed(part, path)
    return {place + 1 for place in places if path[place : place + 1] in allowed}


def _behind_slashes(path: str, start: int) -> set[int]:
    return {place + 1 for place in range(start, len(path)) if path[place] == "/"}


def _within_names(path: str, places: set[int]) -> set[int]:
    """Return the places and all that follow, each up to the next slash."""
    found, reached = set(), False
    for place in range(min(places), len(path) + 1):
        reached = reached or place in places
        if reached:
            found.add(place)
        reached = reached and path[place : place + 1] != "/"
    return found


def _allowed(part: str, path: str) -> set[str]:
    """Return the characters of a path that may stand where a part of a glob does."""
    if part == "?":
        return {*path} - {"/"}
    if len(part) == 1 or part.startswith("\\"):
        return {part[-1]}
    negated = part[1] in "!^"
    spans = [(low or one, high or one) for low, high, one in _SPAN.findall(part[1 + negated : -1])]
    listed = {sign for sign in path if any(low <= sign <= high for low, high in spans)}
    return ({*path} - listed if negated else listed) - {"/"}
