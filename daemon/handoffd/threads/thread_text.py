"""The texts of a thread: cleaned before they are stored, and rendered as markdown. Pure."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from handoff.common import wire

TITLE_MAX = 500
CONTENT_MAX_BYTES = wire.ENTRY_MAX_BYTES
# More than a client would show to a model at once.
THREAD_MAX_BYTES = 1 << 20

# All control characters except tab and newline, C1 included: a terminal obeys them, too.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_SURROGATES = re.compile("[\ud800-\udfff]")


def mend(text: str) -> str:
    """Return a text in which every lone surrogate is replaced."""
    return _SURROGATES.sub("\ufffd", text)


def tidy(text: str) -> str:
    """Return a text without control characters, its words unchanged."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return mend(_CONTROLS.sub("", text))


def tidy_line(text: str) -> str:
    return " ".join(tidy(text).split())


def as_markdown(thread: Mapping[str, Any], entries: Iterable[Mapping[str, Any]]) -> str:
    """Return a whole thread as a markdown document, every entry unchanged."""
    lines = [f"# {thread['title']}", "", f"Thread {thread['id']}, begun {thread['created_at']}"]
    if thread["project"]:
        lines[-1] += f", project {thread['project']}"
    for entry in entries:
        head = (
            f"## {entry['seq']} · {entry['from_client']} · {entry['type']} · {entry['created_at']}"
        )
        lines += ["", head, "", entry["content"]]
    return "\n".join(lines) + "\n"
