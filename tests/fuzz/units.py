"""Texts that make redaction and the neutraliser examine every position: their words, repeated."""

import random

from handoffd.redaction.candidates import HINTS
from handoffd.redaction.kinds import SHAPES, TOKENS, WORDS
from hostile_text import HOSTILE

_HINTS = (
    *(opening for row in (*TOKENS, *WORDS) for opening in row.openings.split()),
    *(shape.hint for shape in SHAPES),
    *(hint.before.replace("\\", "") + hint.seen for hint in HINTS),
    *HOSTILE,
)
_AROUND = (
    "password", "passwd", "token", "secret", "key", "api_key", "credential", "private ", "access ", "passphrase",
    "cookie", "authorization", "Bearer ", "Basic ", "mnemonic", "seed phrase ", "mysql ", " -p", " -u ", " --user ",
    "://", "@", ":5432:", "sig=", "%3D", "pass:", "=", ": ", " is ", "'", '"', "\\", "\\n", "\n", "\n\n", " ", "   ",
    ", ", ";", "&", "<", ">", "/", "-", "--", "_", ".", "\0", "\u200b", "x", "7", "0f", "eyJ", "{", "}", "[", "]", "(",
    ")", "abandon ", "密码", "пароль: ", "default = ",
)  # fmt: skip
_KEYS = (
    "aB3dE5gH7jK9mN1pQ2r/", "aB3dE5gH7jK9mN1p" * 4, "-----BEGIN ", "-----END ", " END ", " BEGIN RSA ", "PRIVATE KEY",
    "-----", " END%20PRIVATE%20KEY ", " END+PRIVATE+KEY ", " END X%PRIVATE KEY ", " Private-MAC ", " Private-MAC: ",
    "Private-Lines: ", "DEK-Info: ", "4b 45 59 ", "ab ", "K E Y - ", "MIIEowIBAAKC", " ", "\n", "\\n",
)  # fmt: skip
_TAGS = (
    "<", "< ", "< a", "\u0301" * 220, "&lt;", "&amp;", "ᐸ", " ", " " * 99, "/", " b=", ">", "a", "&#6", "&#0060;", "x<y ",
    "human", "review", "needed", "handoffd", "-", "context", "\n", "＜", "\ufe0f",
)  # fmt: skip


def repeated(chance: random.Random, size: int) -> str:
    """Return a text of the given size: a few pieces repeated, or many at random."""
    count = chance.choice((1, 2, 3, 4, 6, 40, size // 4))
    tables = chance.choice(((_HINTS,), (_AROUND,), (_HINTS, _AROUND), (_KEYS,), (_TAGS,)))
    pieces = [chance.choice(chance.choice(tables)) for _ in range(count)]
    pieces[0] *= chance.choice((1, 1, 20, 200))
    unit = "".join(pieces)
    return (unit * (size // len(unit) + 1))[:size]
