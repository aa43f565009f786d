"""Texts that almost match each regular expression of the product, to make it slow."""

import importlib
import pkgutil
import random
import re
from collections.abc import Iterator
from re import _constants as code  # type: ignore[attr-defined]
from re import _parser as reading  # type: ignore[attr-defined]
from typing import Any

import handoffd

_CATEGORIES = {
    code.CATEGORY_DIGIT: "7",
    code.CATEGORY_WORD: "a",
    code.CATEGORY_SPACE: " ",
    code.CATEGORY_NOT_DIGIT: "q",
    code.CATEGORY_NOT_WORD: "%",
    code.CATEGORY_NOT_SPACE: "z",
}
# Pieces that patterns repeat: repeated pieces are the usual cause of slowness.
PUMPS = (
    "7", "z", "Z", " ", "%", "\\", "a ", "-", "<", ". ", "a.", "a:", "_a", "é", "/", "|", "#", "\n", "\t",
    "(", "'", '"', "=", "@", "*", "7 ", "7\n", "a\n", "<a>", "</a>", "[", "完", "`", ",", "!", "also, ",
)  # fmt: skip
_MOST = 40  # repetitions of a part if the pattern sets no bound


def patterns() -> list[str]:
    """Return every regular expression that a module of the daemon compiles on import."""
    found: dict[str, None] = {}
    seen: set[int] = set()
    for module in pkgutil.walk_packages(handoffd.__path__, "handoffd."):
        if "__main__" not in module.name and "http" not in module.name:
            for value in list(vars(importlib.import_module(module.name)).values()):
                for pattern in _within(value, seen):
                    text = pattern.pattern
                    text = text if isinstance(text, str) else text.decode()
                    found[f"(?x){text}" if pattern.flags & re.VERBOSE else text] = None
    return list(found)


def _within(value: Any, seen: set[int]) -> Iterator[re.Pattern[Any]]:
    """Yield the patterns that a module's value holds, in containers and objects of any depth."""
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, re.Pattern):
        yield value
    inner: Any = ()
    if isinstance(value, dict):
        inner = value.values()
    elif isinstance(value, list | tuple | set | frozenset):
        inner = value
    elif type(value).__module__.startswith("handoffd") and not isinstance(value, type):
        inner = getattr(value, "__dict__", {}).values()
    for item in list(inner):
        yield from _within(item, seen)


def sample(pattern: str, chance: random.Random) -> str:
    """Return a text that the pattern matches, except for its lookarounds."""
    return _text(reading.parse(pattern), chance)


def _text(tree: Any, chance: random.Random) -> str:
    return "".join(_part(kind, value, chance) for kind, value in tree)


def _part(kind: Any, value: Any, chance: random.Random) -> str:  # noqa: PLR0911  one a construct
    if kind is code.LITERAL:
        return chr(value)
    if kind is code.NOT_LITERAL:
        return "~" if value != ord("~") else "a"
    if kind is code.ANY:
        return chance.choice("a .")
    if kind is code.IN:
        return _one_of(value, chance)
    if kind is code.BRANCH:
        return _text(chance.choice(value[1]), chance)
    if kind in (code.MAX_REPEAT, code.MIN_REPEAT, code.POSSESSIVE_REPEAT):
        least, most, tree = value
        times = chance.choice([least, min(most, least + 1), min(most, least + _MOST)])
        return "".join(_text(tree, chance) for _ in range(times))
    if kind is code.SUBPATTERN:
        return _text(value[3], chance)
    if kind is code.ATOMIC_GROUP:
        return _text(value, chance)
    if kind is code.ASSERT and value[0] > 0:
        return chance.choice(["", _text(value[1], chance)])
    return ""


def _one_of(choices: Any, chance: random.Random) -> str:
    if choices[0][0] is code.NEGATE:
        return chance.choice("a7-:/ =")
    kind, value = chance.choice(choices)
    if kind is code.LITERAL:
        return chr(value)
    if kind is code.RANGE:
        return chr(chance.randint(*value))
    return _CATEGORIES.get(value, "a")


def attacks(pattern: str, chance: random.Random) -> Iterator[str]:
    """Yield near matches: a beginning, a piece to repeat after it, and a wrong end."""
    whole = sample(pattern, chance)
    yield f"\0{whole}\0"
    yield f"\0{whole}\n\0"
    for _ in range(3):
        start = chance.randrange(len(whole) + 1)
        end = start + chance.choice((1, 1, 2, 6))
        if pump := whole[start:end]:
            yield f"{whole[:start]}\0{pump}\0{chance.choice(('', '!', chr(10)))}"
            yield f"\0{pump}\0{whole[end:]}"
