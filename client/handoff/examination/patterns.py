"""Which files a list of patterns names, by the rules of the programs that read such lists."""

import re
from collections.abc import Iterable

_PART = re.compile(r"\*\*/|/\*\*$|\*+|\?|\[[!^]?\]?[^\]/]*\]|\\.|.", re.DOTALL)


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
    everywhere = "" if anchored or "/" in pattern.rstrip("/") else "(?:.*/)?"
    below = "/.*" if pattern.endswith("/") else "(?:/.*)?"
    return matches(everywhere + translated(body) + below, path)


def translated(pattern: str) -> str:
    """Return a glob as a regular expression: ** may be any number of directories."""
    return "".join(_translated(part) for part in _PART.findall(pattern))


def _translated(part: str) -> str:
    fixed = {"**/": "(?:.*/)?", "/**": "/.*", "?": "[^/]"}
    if part in fixed:
        return fixed[part]
    if part.strip("*") == "":
        return "[^/]*"
    if part.startswith("[") and part.endswith("]") and len(part) > 2:  # noqa: PLR2004
        return part.replace("[!", "[^", 1).replace("\\", "\\\\")
    return re.escape(part[-1] if part.startswith("\\") else part)


def matches(expression: str, path: str) -> bool:
    try:
        return re.fullmatch(expression, path) is not None
    except re.error:
        return False
