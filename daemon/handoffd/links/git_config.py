"""git's configuration files: a strict reader, and a writer for our own few lines. Pure.

A repository's configuration is never given to git, since much of it names programs. We read it
ourselves, for settings that are plain data.
"""

import re
from collections.abc import Iterable

# One value for each time that a name is set. Section and name are in lower case; a subsection
# between them keeps its case.
Values = dict[str, list[str]]

# Many branches leave many settings; without a limit a small file could fill the memory.
SETTINGS_MAX = 20_000
_SPACE = re.compile(r"(?:[ \t\r\n]|[#;][^\n]*)*")
_REST = re.compile(r"[^\n]*")
_SECTION = re.compile(r'\[([A-Za-z0-9.-]+)(?:[ \t\r]+"((?:[^"\\\n]|\\[^\n])*)")?\]')
_NAME = re.compile(r"([A-Za-z][A-Za-z0-9-]*)[ \t]*(=|\n|\Z)")
_PIECE = re.compile(r'\\\n|\\[ntb"\\]|"|[ \t\r]+|[#;]|[^\\"\n \t\r#;]+')
_ESCAPED = {"\\\n": "", "\\n": "\n", "\\t": "\t", "\\b": "\b", '\\"': '"', "\\\\": "\\"}
_TRUE = ("true", "yes", "on", "1")
_FALSE = ("false", "no", "off", "0", "")


class GitConfigError(ValueError):
    """The file cannot be parsed; git would not understand it either."""


def parse(data: bytes) -> Values:
    """Return every setting of a file by its name; includes are not followed."""
    text = data.decode("utf-8", "surrogateescape").removeprefix("\ufeff").replace("\r\n", "\n")
    found: Values = {}
    section, at = "", 0
    while (at := _end(_SPACE, text, at)) < len(text):
        if header := _SECTION.match(text, at):
            inner = header[2]
            below = "" if inner is None else re.sub(r"\\(.)", r"\1", inner) + "."
            section, at = f"{header[1].lower()}.{below}", header.end()
        elif name := _NAME.match(text, at):
            value, at = _value(text, name.end()) if name[2] == "=" else ("true", name.end())
            found.setdefault(section + name[1].lower(), []).append(value)
            if len(found) > SETTINGS_MAX:
                raise GitConfigError(f"it has more than {SETTINGS_MAX} settings")
        else:
            raise _error(text, at)
    return found


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    return found.end() if found else at


def _value(text: str, at: int) -> tuple[str, int]:
    """Return the value that begins at `at`, and the end of its line."""
    pieces: list[str] = []
    solid, quoted = 0, False
    while at < len(text) and text[at] != "\n":
        piece = _PIECE.match(text, at)
        if piece is None:
            raise _error(text, at)
        word, at = piece[0], piece.end()
        if word == '"':
            quoted = not quoted
        elif word in ("#", ";") and not quoted:
            at = _end(_REST, text, at)
            continue
        elif word.isspace() and not quoted:
            pieces += [word] if pieces else []
            continue
        else:
            pieces.append(_ESCAPED.get(word, word))
        solid = len(pieces)
    if quoted:
        raise _error(text, at)
    return "".join(pieces[:solid]), at


def _error(text: str, at: int) -> GitConfigError:
    return GitConfigError(f"line {text.count(chr(10), 0, at) + 1} is not understood")


def last(values: Values, name: str, default: str = "") -> str:
    """Return the last value of a name, which counts if it is set several times."""
    return values.get(name, [default])[-1]


def boolean(text: str) -> str:
    """Return `true` or `false` for the words that git accepts as such, else an empty text."""
    word = text.lower()
    return "true" if word in _TRUE else "false" if word in _FALSE else ""


def formatted(settings: Iterable[tuple[str, str]]) -> str:
    """Return the text of a file with these settings, each below its own header."""
    lines = []
    for name, value in settings:
        section, _, key = name.rpartition(".")
        head, dot, below = section.partition(".")
        header = f'{head} "{_escaped(below)}"' if dot else head
        lines.append(f'[{header}]\n\t{key} = "{_escaped(value)}"\n')
    return "".join(lines)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
