"""The title of a document that a request points to: a handoff, an issue, a plan. Pure."""

import re

from handoffd.session.text import plain

_LINES_MAX, _LINE_MAX = 60, 300
_NUMBERED = re.compile(r"^\s*\d+(?:→|\t)")
_TITLED = re.compile(
    r"(?i)^\W{0,4}(?:title|purpose|goal|subject)\"?\s*[:=]\s*[\"']?(?P<title>[^\"'\n]{6,200})"
)
_HEADING = re.compile(r"^#{1,3}\s+(?P<title>.{6,200})")
_JSON_TITLE = re.compile(r"\"title\"\s*:\s*\"(?P<title>[^\"\\]{6,200})\"")
# "○ shop-1a · Import the price lists" and "shop-1a: Import the price lists", as bd prints them.
_ISSUE = re.compile(r"^\W{0,4}[a-z]\w*-[\w.]+(?: \[\w+\])?\s*[:·]\s+(?P<title>[^\[\n]{6,200})")
# A heading that names the kind of the document, not its subject.
_KIND = re.compile(
    r"(?i)^(?:readme|handoff|hand-?over|plan|notes|todo|overview|summary|claude\.md|agents\.md|"
    r"session handoff|implementation plan|table of contents|changelog)\W*$"
)


def title_of(output: str) -> str:
    """Return the title that a document states, or an empty text."""
    text = output[: _LINES_MAX * _LINE_MAX]
    found = _JSON_TITLE.search(text[: _LINE_MAX * 10])
    if found:
        return found["title"]
    lines = [_NUMBERED.sub("", line)[:_LINE_MAX] for line in text.split("\n")[:_LINES_MAX]]
    issue = _ISSUE.match(lines[0])
    if issue:
        return issue["title"].strip()
    for pattern in (_TITLED, _HEADING):
        for line in lines:
            match = pattern.match(line)
            title = plain(match["title"]).strip(" \"',") if match else ""
            if title and not _KIND.match(title):
                return title
    return ""
