"""What a person typed, told from what the client and we ourselves put beside it. Pure."""

import re

# Everything we print into a session is marked; what carries the mark is never evidence again.
MARKER = "<handoffd-context"
_MARKED = re.compile(
    r"<handoffd-context (?:project|handoff)=.*?(?:</handoffd-context>|\Z)", re.DOTALL
)

# User records that no person typed, by how they begin.
_NOT_TYPED = re.compile(
    r"\s*(?:<(?:local-command-(?:stdout|stderr|caveat)|command-(?:name|message)"
    r"|bash-(?:input|stdout|stderr)|task-notification|system-reminder|teammate-message"
    r"|user-memory-input|session-start-hook|tick|goal)\b|\[Request interrupted by user"
    r"|Caveat: The messages below|This session is being continued)"
)
INTERRUPTED = "[Request interrupted by user"
_IDE_TAGS = ("ide_opened_file", "ide_selection")


def typed_text(text: str) -> str:
    """Return what a person typed in a user's record, or an empty text."""
    text = without_marked(_without_editor(text)).strip()
    return "" if _NOT_TYPED.match(text) else text


def without_marked(text: str) -> str:
    """Take out what we injected ourselves."""
    return _MARKED.sub("", text) if MARKER in text else text


def marked(text: str) -> str:
    """Return what we injected ourselves, and nothing else."""
    return "\n".join(_MARKED.findall(text)) if MARKER in text else ""


def _without_editor(text: str) -> str:
    """Take out what an editor put beside the words; by search, since a regex may take its time."""
    for tag in _IDE_TAGS:
        kept, position = [], 0
        while (start := text.find(f"<{tag}>", position)) >= 0:
            end = text.find(f"</{tag}>", start)
            if end < 0:
                break
            kept.append(text[position:start])
            position = end + len(tag) + 3
        text = "".join([*kept, text[position:]])
    return text


def tag(text: str, name: str) -> str:
    """Return what stands between the tags of this name, or an empty text."""
    start = text.find(f"<{name}>")
    if start < 0:
        return ""
    start += len(name) + 2
    end = text.find(f"</{name}>", start)
    return text[start : end if end >= 0 else len(text)].strip()
