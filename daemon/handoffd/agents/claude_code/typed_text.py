"""Separate a person's own words from texts that the client or we put beside them. Pure."""

import re
from collections.abc import Iterator

# Everything we print into a session is marked; a marked text is never evidence again.
MARKER = "<handoffd-context"
END = "</handoffd-context>"
# The first words inside our mark, if it has several lines.
LEAD = "A record of earlier work"
MARKED = re.compile(rf"{MARKER} (?:project|handoff)=")
# In the words of a person only the exact form counts: a similar text may be their own.
PASTED = re.compile(
    rf'(?m)^{MARKER} (?:project|handoff)="[^"\n]*"(?: at="[^"\n]*")?>(?:\n{LEAD}| (?=.*{END}$))'
)

# The beginnings of user records that no person typed.
_NOT_TYPED = re.compile(
    r"\s*(?:<(?P<name>local-command-(?:stdout|stderr|caveat)|command-(?:name|message)"
    r"|bash-(?:input|stdout|stderr)|task-notification|system-reminder|teammate-message"
    r"|user-memory-input|session-start-hook|tick|goal)\b|\[Request interrupted by user"
    r"|Caveat: The messages below|This session is being continued)"
)
INTERRUPTED = "[Request interrupted by user"
_IDE_TAGS = ("ide_opened_file", "ide_selection")


def typed_text(text: str) -> str:
    """Return the text that a person typed in a user record, or an empty text."""
    text = without_marked(_without_editor(text), PASTED).strip()
    found = _NOT_TYPED.match(text)
    # The client closes its tags: behind an unclosed tag are a person's own words.
    is_clients = found and (not found["name"] or f"</{found['name']}" in text)
    return "" if is_clients else text


def without_marked(text: str, opening: re.Pattern[str] = MARKED) -> str:
    """Return the text without our own printed text, and with all words around it."""
    kept, position = [], 0
    for start, end in _spans(text, opening):
        kept.append(text[position:start])
        position = end
    return "".join([*kept, text[position:]])


def marked(text: str, opening: re.Pattern[str] = MARKED) -> str:
    """Return only the text that we printed ourselves."""
    return "\n".join(text[start:end] for start, end in _spans(text, opening))


def _spans(text: str, opening: re.Pattern[str]) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each marked text.

    A mark that is not closed was cut, and runs to the end. In the words of a person it is no mark.
    """
    if MARKER not in text:
        return
    position = 0
    while found := opening.search(text, position):
        end = text.find(END, found.end())
        if end < 0 and opening is PASTED:
            return
        position = end + len(END) if end >= 0 else len(text)
        yield found.start(), position


def _without_editor(text: str) -> str:
    """Return the text without an editor's additions; searched, since a regex may be slow."""
    for name in _IDE_TAGS:
        kept, position = [], 0
        while (start := text.find(f"<{name}>", position)) >= 0:
            end = text.find(f"</{name}>", start)
            if end < 0:
                break
            kept.append(text[position:start])
            position = end + len(name) + 3
        text = "".join([*kept, text[position:]])
    return text


def tag_content(text: str, name: str) -> str:
    """Return the text between the tags of this name, or an empty text."""
    start = text.find(f"<{name}>")
    if start < 0:
        return ""
    start += len(name) + 2
    end = text.find(f"</{name}>", start)
    return text[start : end if end >= 0 else len(text)].strip()
