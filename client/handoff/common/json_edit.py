"""Edits of JSON that another program owns; every other character stays as it was."""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, NoReturn

from handoff.common.safe_parsing import load_json

Step = str | int
Path = Sequence[Step]


class BrokenJsonError(ValueError):
    """A text is no JSON; the message says where."""


class _Place(NamedTuple):
    """A member of an object or an item of an array: its start, and its value's start and end."""

    key: Step
    start: int
    value: int
    end: int


def _refuse(constant: str) -> NoReturn:
    raise BrokenJsonError(f"{constant} is no JSON")


_ABSENT = object()
_DECODER = json.JSONDecoder(parse_constant=_refuse)


def load(text: str) -> Any:
    """Return the value of a text; an empty text is an empty object."""
    try:
        return load_json(text, parse_constant=_refuse) if text.strip() else {}
    except json.JSONDecodeError as problem:
        raise BrokenJsonError(
            f"{problem.msg}: line {problem.lineno}, column {problem.colno}"
        ) from None
    except ValueError as problem:  # a number with more digits than Python reads, or too deep
        raise BrokenJsonError(str(problem).partition(";")[0]) from None


def same(one: str, other: str) -> bool:
    """Return True if two texts have the same value, regardless of the order of keys."""
    return _canonical(one) == _canonical(other)


def _canonical(text: str) -> str:
    # Python's own comparison takes 1 for true.
    return json.dumps(load(text), sort_keys=True)


def get(text: str, path: Path) -> Any:
    """Return the value at a path, or None."""
    place = _locate(text, path) if text.strip() else None
    return None if place is None else load(text[place.value : place.end])


def put(text: str, path: Path, value: Any) -> str:
    """Return the text with a member set; objects on the way are made, also in place of a null."""
    text = text if text.strip() else "{}\n"
    place = _locate(text, path)
    if place is not None:
        shown = _shown(text, value, _indent(text, place.value))
        return text[: place.value] + shown + text[place.end :]
    parent = _locate(text, path[:-1])
    if parent is None or _is_null(text, parent):
        return put(text, path[:-1], {path[-1]: value})
    return _insert(text, parent, _shown(text, path[-1], "") + _separators(text)[1], value)


def add(text: str, path: Path, item: Any) -> str:
    """Return the text with an item appended to an array, which is made if it is missing or null."""
    place = _locate(text, path) if text.strip() else None
    if place is None or _is_null(text, place):
        return put(text, path, [item])
    return _insert(text, place, "", item)


def take(text: str, path: Path) -> str:
    """Return the text without a member or an item."""
    place = _locate(text, path)
    parent = _locate(text, path[:-1])
    if place is None or parent is None:
        return text
    places = _members(text, parent.value)
    index = places.index(place)
    if len(places) == 1:
        return text[: parent.value + 1] + text[parent.end - 1 :]
    if index + 1 < len(places):
        return text[: place.start] + text[places[index + 1].start :]
    return text[: places[index - 1].end] + text[place.end :]


def differences(old: str, new: str) -> list[str]:
    """Return the differences of two texts; a value that both have is not shown."""
    return list(_differences(load(old), load(new), ""))


def _differences(old: Any, new: Any, indent: str) -> Iterator[str]:
    if isinstance(old, list):
        yield from _marked("-", "", [item for item in old if item not in new], indent)
        yield from _marked("+", "", [item for item in new if item not in old], indent)
        return
    for key in {**old, **new}:
        label = f"{_dumped(key)}: "
        was, now = old.get(key, _ABSENT), new.get(key, _ABSENT)
        if type(was) is type(now) and isinstance(now, dict | list) and was != now:
            brackets = "{}" if isinstance(now, dict) else "[]"
            yield f" {indent}{label}{brackets[0]}\n"
            yield from _differences(was, now, f"{indent}  ")
            yield f" {indent}{brackets[1]}\n"
        elif was != now:
            yield from _marked("-", label, [was], indent)
            yield from _marked("+", label, [now], indent)


def _marked(sign: str, label: str, values: list[Any], indent: str) -> Iterator[str]:
    for value in values:
        if value is not _ABSENT:
            shown = _dumped(value, "  ")
            yield from (f"{sign}{indent}{line}\n" for line in f"{label}{shown},".split("\n"))


def _skip(text: str, position: int) -> int:
    while text[position : position + 1] in (" ", "\t", "\r", "\n"):
        position += 1
    return position


def _locate(text: str, path: Path) -> _Place | None:
    start = _skip(text, 0)
    place = _Place("", start, start, _DECODER.raw_decode(text, start)[1])
    for step in path:
        # JSON allows a key twice; the last one counts.
        found = [member for member in _members(text, place.value) if member.key == step]
        if not found:
            return None
        place = found[-1]
    return place


def _members(text: str, start: int) -> list[_Place]:
    """Return the members of an object or the items of an array; any other value has none."""
    found: list[_Place] = []
    if text[start] not in "{[":
        return found
    position = _skip(text, start + 1)
    while text[position] not in "}]":
        begin, key = position, len(found)
        if text[start] == "{":
            key, position = _DECODER.raw_decode(text, position)
            position = _skip(text, _skip(text, position) + 1)
        value = position
        position = _DECODER.raw_decode(text, position)[1]
        found.append(_Place(key, begin, value, position))
        position = _skip(text, position)
        if text[position] == ",":
            position = _skip(text, position + 1)
    return found


def _insert(text: str, container: _Place, label: str, value: Any) -> str:
    places = _members(text, container.value)
    if not places:
        return _fill(text, container, label, value)
    last = places[-1]
    before = re.search(r"(\r?\n)([ \t]*)\Z", text[: last.start])
    if before is None:
        new = f"{_separators(text)[0]}{label}{_shown(text, value, '')}"
    else:
        new = f",{before[0]}{label}{_shown(text, value, before[2])}"
    return text[: last.end] + new + text[last.end :]


def _fill(text: str, container: _Place, label: str, value: Any) -> str:
    """Put the first member into an empty object, or the first item into an empty array."""
    outer = _indent(text, container.value)
    inner = outer + (_unit(text) or "")
    new = f"{label}{_shown(text, value, inner)}"
    if _unit(text) is not None:
        new = f"{_newline(text)}{inner}{new}{_newline(text)}{outer}"
    return text[: container.value + 1] + new + text[container.end - 1 :]


def _shown(text: str, value: Any, indent: str) -> str:
    """Return a value in the style of the text, for a line with the given indent."""
    comma, colon = _separators(text)
    unit = _unit(text)
    escapes = text.isascii() and "\\u" in text
    shown = _dumped(value, unit, (comma if unit is None else ",", colon), escapes=escapes)
    return shown.replace("\n", _newline(text) + indent)


def _dumped(
    value: Any,
    indent: str | None = None,
    separators: tuple[str, str] | None = None,
    *,
    escapes: bool = False,
) -> str:
    """Return a value as JSON that UTF-8 can encode: half a surrogate pair stays an escape."""
    shown = json.dumps(
        value, ensure_ascii=escapes, indent=indent, separators=separators, allow_nan=False
    )
    return re.sub("[\ud800-\udfff]", lambda half: f"\\u{ord(half[0]):04x}", shown)


def _separators(text: str) -> tuple[str, str]:
    """Return comma and colon of a text on one line; they have no space if its colons have none."""
    places = _members(text, _skip(text, 0))
    return (",", ":") if places and text[places[-1].value - 1] == ":" else (", ", ": ")


def _is_null(text: str, place: _Place) -> bool:
    return text[place.value : place.end] == "null"


def _unit(text: str) -> str | None:
    """Return the indent of one level, or None for a text on one line."""
    first = re.search(r"\n([ \t]+)\S", text)
    if first is not None:
        return first[1]
    is_on_one_line = "\n" not in text.strip() and text.split() not in (["{}"], ["{", "}"])
    return None if is_on_one_line else "  "


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _indent(text: str, position: int) -> str:
    line = text[text.rfind("\n", 0, position) + 1 : position]
    return line[: len(line) - len(line.lstrip(" \t"))]
