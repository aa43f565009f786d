"""Encodes a path as a name: by the contract, by its first version, by Claude Code. Pure.

The three rules agree on plain paths only:

| in the path              | contract         | v1   | Claude Code                    |
|--------------------------|------------------|------|--------------------------------|
| `/` and `.`              | `-`              | `-`  | `-`                            |
| `-`                      | kept             | kept | kept                           |
| `_`, a space, `@`        | `-`              | kept | `-`                            |
| a character of the BMP   | `-`              | kept | `-`                            |
| one beyond the BMP       | `-`              | kept | `--` (two UTF-16 units)        |
| `e` + combining accent   | `e-`             | kept | `-` (NFC makes one character)  |
| over 200 characters      | as long as it is | same | the first 200, `-`, and a hash |
| a byte that is not UTF-8 | `-`              | kept | (cannot occur)                 |

None of the rules can be reversed, and two directories may share a name: the `cwd:` line of a
handoff names its directory.
"""

import re
import unicodedata

_OUTSIDE = re.compile(r"[^a-zA-Z0-9-]")
_CLAUDE_CODE_MAX = 200
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


def encode(path: str) -> str:
    """Return the contract's name of a physical path: `sed 's/[^a-zA-Z0-9-]/-/g'`.

    One dash per character, as sed does in a UTF-8 locale. A newline, and each byte that is not
    UTF-8 (a lone surrogate here), becomes a dash, too: sed would leave them.
    """
    return _OUTSIDE.sub("-", path)


def encode_v1(path: str) -> str:
    """Return the name that the contract's first version used: `tr '/.' '-'`."""
    return path.replace("/", "-").replace(".", "-")


def is_v1(name: str) -> bool:
    """Return True if only the first version makes this directory name, which has no dot, either."""
    return name.startswith("-") and encode(name) != name == encode_v1(name)


def claude_code_name(path: str) -> str:
    """Return the name of a working directory below Claude Code's own `projects`."""
    composed = unicodedata.normalize("NFC", path)
    units = composed.encode("utf-16-le", "surrogatepass")
    numbers = [units[at] | units[at + 1] << 8 for at in range(0, len(units), 2)]
    name = "".join(_letter(number) for number in numbers)
    if len(name) <= _CLAUDE_CODE_MAX:
        return name
    return f"{name[:_CLAUDE_CODE_MAX]}-{_hash(numbers)}"


def _letter(unit: int) -> str:
    character = chr(unit)
    return character if character.isascii() and character.isalnum() else "-"


def _hash(units: list[int]) -> str:
    """Return JavaScript's usual hash of a text (h * 31 + unit, as int32), in base 36."""
    value = 0
    for unit in units:
        value = (value * 31 + unit) & 0xFFFFFFFF
    value = abs(value - (1 << 32) if value >= 1 << 31 else value)
    digits = ""
    while value:
        value, rest = divmod(value, 36)
        digits = _DIGITS[rest] + digits
    return digits or "0"
