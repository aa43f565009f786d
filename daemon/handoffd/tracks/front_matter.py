"""Reads and renders the small YAML blocks in a project's markdown files. Pure."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from handoffd.runtime.safe_yaml import YamlBombError, refuse_bombs
from handoffd.session.text import clean

SIZE_MAX = 16 << 10
VALUE_MAX = 500
_KEY_MAX = 80
_DEPTH_MAX = 6
_ITEMS_MAX = 100
# libyaml if it is built in: it is ten times as fast.
_LOADER: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
# Text that every YAML reader takes literally without quotes; in a flow a colon may end a key.
_PLAIN = re.compile(r"[\w/](?:[\w./+@~()=-]|:(?=[\w/])| (?=[\w/(]))*")
_SPECIAL = re.compile(
    r"(?i)true|false|yes|no|on|off|y|n|null|none"
    r"|[-+]?(?:0[xob][\da-f_]+|[\d_.,]+(?:e[-+]?\d+)?|\d+(?::[\d.]+)+)"
)


class YamlError(ValueError):
    """The text is not a mapping that we accept."""


def read(text: str) -> dict[str, Any]:
    """Read a mapping; every scalar in it stays text as typed."""
    if len(text) > SIZE_MAX:
        raise YamlError(f"it has more than {SIZE_MAX} characters")
    try:
        refuse_bombs(text, _DEPTH_MAX)
        data = yaml.load(text, Loader=_LOADER)  # noqa: S506  it makes nothing but texts
    except YamlBombError as problem:
        raise YamlError(str(problem)) from None
    except Exception:  # noqa: BLE001  a person's file may hold anything
        raise YamlError("it is not valid YAML") from None
    if data is None or data == "":
        return {}
    if not isinstance(data, dict) or not all(isinstance(key, str) for key in data):
        raise YamlError("it is no mapping of names to values")
    return data


def render(data: Mapping[str, Any]) -> list[str]:
    """Return the lines of a mapping: nested mappings as blocks, lists in one line."""
    return [line for key, value in data.items() for line in _lines(key, value, 1)]


def _lines(key: str, value: Any, depth: int) -> list[str]:
    if isinstance(value, Mapping) and value and depth < _DEPTH_MAX - 1:
        inner = [
            f"  {line}" for name in _few(value) for line in _lines(name, value[name], depth + 1)
        ]
        return [f"{_key(key)}:", *inner]
    return [f"{_key(key)}: {_flow(value, depth) if _is_compound(value) else scalar(value)}"]


def _flow(value: Any, depth: int) -> str:
    if not _is_compound(value):
        return scalar(value, flow=True)
    if depth >= _DEPTH_MAX:
        return '"…"'
    if isinstance(value, Mapping):
        pairs = (f"{_key(key)}: {_flow(value[key], depth + 1)}" for key in _few(value))
        return f"{{{', '.join(pairs)}}}"
    return f"[{', '.join(_flow(item, depth + 1) for item in _few(value))}]"


def _key(key: str) -> str:
    """Return a key; libyaml reads a key of up to 1024 characters, escapes included."""
    return scalar(one_line(key, _KEY_MAX), flow=True)


def _is_compound(value: Any) -> bool:
    return isinstance(value, Mapping | list | tuple)


def _few(value: Mapping[str, Any] | Sequence[Any]) -> list[Any]:
    return list(value)[:_ITEMS_MAX]


def scalar(value: Any, *, flow: bool = False) -> str:
    """Return a value as one line of YAML: plain if that is safe, else quoted."""
    if not isinstance(value, str):
        return json.dumps(value) if value is None or isinstance(value, int | float) else '"…"'
    text = one_line(value)
    if _PLAIN.fullmatch(text) and not _SPECIAL.fullmatch(text) and not (flow and ":" in text):
        return text
    return '"' + "".join(map(_escaped, text)) + '"'


def _escaped(character: str) -> str:
    if character in '"\\':
        return f"\\{character}"
    return character if character.isprintable() else f"\\U{ord(character):08x}"


def one_line(text: str, most: int = VALUE_MAX) -> str:
    """Return a text as one line without control characters."""
    return " ".join(clean(text[: 2 * VALUE_MAX]).split())[:most].rstrip()
