"""Texts that almost match: made from every regular expression of the product, to make it slow."""

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
_MOST = 40  # times that a part is repeated, where the pattern sets no bound


def patterns() -> list[str]:
    """Return every regular expression that a module of the daemon has compiled on import."""
    seen: set[int] = set()
    found: dict[str, None] = {}

    def look(value: Any) -> None:
        if id(value) in seen:
            return
        seen.add(id(value))
        if isinstance(value, re.Pattern):
            text = value.pattern if isinstance(value.pattern, str) else value.pattern.decode()
            found[text if not value.flags & re.VERBOSE else f"(?x){text}"] = None
        elif isinstance(value, dict):
            for item in value.values():
                look(item)
        elif isinstance(value, list | tuple | set | frozenset):
            for item in value:
                look(item)
        elif type(value).__module__.startswith("handoffd") and not isinstance(value, type):
            for name in getattr(value, "__dict__", None) or getattr(value, "__slots__", ()):
                look(getattr(value, name, None))

    for module in pkgutil.walk_packages(handoffd.__path__, "handoffd."):
        if "__main__" not in module.name and "http" not in module.name:
            for value in list(vars(importlib.import_module(module.name)).values()):
                look(value)
    return list(found)


def sample(pattern: str, chance: random.Random) -> str:
    """Return a text that the pattern matches, but for what it looks around at."""
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


def units(pattern: str, chance: random.Random) -> Iterator[str]:
    """Yield pieces which, repeated, come close to a match again and again."""
    whole = sample(pattern, chance)
    yield whole
    for cut in (chance.randrange(1, len(whole)) for _ in range(2) if len(whole) > 1):
        yield whole[:cut]
        yield whole[cut:]
    if whole:
        yield chance.choice(whole)
    yield whole + "\n"
