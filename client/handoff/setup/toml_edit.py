"""Edits of the configuration's text: a value changes, comments and all the rest stay."""

import json
import re
from typing import Any

from handoff.common.errors import HandoffError
from handoff.common.safe_parsing import load_toml


def load(text: str) -> dict[str, Any]:
    try:
        return load_toml(text)
    except ValueError as problem:  # a number with too many digits is one, too
        raise HandoffError(f"The configuration is broken: {problem}") from None


def put(text: str, table: str, key: str, value: str | bool | None) -> str:
    """Return the text with a key of a table set to a string or a truth value, or without it."""
    shown = json.dumps(value, ensure_ascii=False)
    found = _find(text, table, rf"([ \t]*{key}\s*=\s*)(?:\"[^\"\n]*\"|'[^'\n]*'|true|false)")
    if value is None:
        found = _find(text, table, rf"[ \t]*{key}\s*=[^\n]*\n?")
        new = text if found is None else _without_header(text, found, table)
    elif found is not None:
        new = f"{text[: found.start()]}{found[1]}{shown}{text[found.end() :]}"
    else:
        new = _insert(text, table, f"{key} = {shown}")
    return _checked(text, new, table, key, value)


def add(text: str, table: str, key: str, item: str) -> str:
    """Return the text with a string added to a list of a table, as its first item."""
    shown = json.dumps(item, ensure_ascii=False)
    found = _find(text, table, rf"([ \t]*{key}\s*=\s*\[)(\s*\])?")
    now = _listed(text, table, key)
    if found is not None:
        rest = "]" if found[2] else ", "
        new = f"{text[: found.start()]}{found[1]}{shown}{rest}{text[found.end() :]}"
    else:
        new = _insert(text, table, f"{key} = [{shown}]")
    return _checked(text, new, table, key, [item, *now])


def take(text: str, table: str, key: str, item: str) -> str:
    """Return the text without a string that `add` has put into a list of a table."""
    now = _listed(text, table, key)
    if item not in now:
        return text
    rest = [other for other in now if other != item]
    shown = re.escape(json.dumps(item, ensure_ascii=False))
    found = _find(text, table, rf"([ \t]*{key}\s*=\s*\[){shown}(, )?")
    if found is not None and found[2]:
        new = f"{text[: found.start()]}{found[1]}{text[found.end() :]}"
        return _checked(text, new, table, key, rest)
    found = _find(text, table, rf"{key} = \[{shown}\]\n")
    new = text if found is None else _without_header(text, found, table)
    return _checked(text, new, table, key, None)


def _without_header(text: str, line: re.Match[str], table: str) -> str:
    """Return the text without a line, and without the header that we have put before it."""
    new = f"{text[: line.start()]}{text[line.end() :]}"
    return re.sub(rf"\n?^\[{table}\]\n(?=\s*(\[|\Z))", "", new, flags=re.MULTILINE)


def _listed(text: str, table: str, key: str) -> list[Any]:
    found = load(text).get(table)
    listed = found.get(key) if isinstance(found, dict) else None
    return listed if isinstance(listed, list) else []


def _find(text: str, table: str, pattern: str) -> re.Match[str] | None:
    """Return the first match of a pattern at the start of a line within a table."""
    header = _header(text, table)
    if header is None:
        return None
    after = re.compile(r"(?m)^[ \t]*\[").search(text, header.end())
    end = after.start() if after else len(text)
    return re.compile(rf"(?m)^{pattern}").search(text, header.end(), end)


def _header(text: str, table: str) -> re.Match[str] | None:
    return re.search(rf"(?m)^[ \t]*\[[ \t]*{table}[ \t]*\][^\n]*\n?", text)


def _insert(text: str, table: str, line: str) -> str:
    header = _header(text, table)
    if header is None:
        gap = "" if not text else "\n" if text.endswith("\n") else "\n\n"
        return f"{text}{gap}[{table}]\n{line}\n"
    head = text[: header.end()].rstrip("\n")
    return f"{head}\n{line}\n{text[header.end() :]}"


def _checked(text: str, new: str, table: str, key: str, value: Any) -> str:
    """Return the new text if it sets exactly the wanted value: TOML has many spellings."""
    meant = load(text)
    try:
        meant.setdefault(table, {})[key] = value
        agrees = _without_empty(load_toml(new)) == _without_empty(meant)
    except (ValueError, TypeError):  # it may be no table at all
        agrees = False
    if not agrees:
        raise HandoffError(
            f"{key} of [{table}] cannot be set without rewriting the configuration.",
            f"Set it by hand: {key} = {json.dumps(value)}",
        )
    return new


def _without_empty(tables: dict[str, Any]) -> dict[str, Any]:
    """Return the tables without keys that have no value, and without empty tables."""
    found = {
        name: {key: value for key, value in table.items() if value is not None}
        if isinstance(table, dict)
        else table
        for name, table in tables.items()
    }
    return {name: table for name, table in found.items() if table != {}}
