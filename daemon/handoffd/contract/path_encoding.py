"""Encodes a path as a name: by the contract, and by its first version. Pure.

| in the path              | contract | v1   |
|--------------------------|----------|------|
| `/` and `.`              | `-`      | `-`  |
| `-`                      | kept     | kept |
| any other character      | `-`      | kept |
| a byte that is not UTF-8 | `-`      | kept |

Claude Code names the directories below its `projects` by a third rule, which differs for combining
accents, for characters beyond the BMP and above 200 characters; we never need it. No rule can be
reversed, and two directories may share a name: the `cwd:` line of a handoff names its directory.
"""

import re

_OUTSIDE = re.compile(r"[^a-zA-Z0-9-]")


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
