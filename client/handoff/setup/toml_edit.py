"""The configuration's text: a value is set, comments and all the rest stay."""

import json
import re
from typing import Any

from handoff.common.errors import HandoffError
from handoff.common.safe_parsing import load_toml


def load(text: str) -> dict[str, Any]:
    try:
        return load_toml(text)
    except ValueError as problem:  # also a number of too many digits
        raise HandoffError(f"The configuration is broken: {problem}") from None


def put(text: str, table: str, key: str, value: str) -> str:
    """Set a text of a table."""
    shown = json.dumps(value, ensure_ascii=False)
    found = _find(text, table, rf"([ \t]*{key}\s*=\s*)(?:\"[^\"\n]*\"|'[^'\n]*')")
    if found is not None:
        new = f"{text[: found.start()]}{found[1]}{shown}{text[found.end() :]}"
    else:
        new = _insert(text, table, f"{key} = {shown}")
    return _checked(text, new, table, key, value)


def add(text: str, table: str, key: str, item: str) -> str:
    """Put a text into a list of a table, as the first."""
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
    """Take a text out of a list of a table, where `add` has put it."""
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
    new = text if found is None else f"{text[: found.start()]}{text[found.end() :]}"
    # The header that `add` has put before it.
    emptied = re.sub(rf"\n?^\[{table}\]\n(?=\s*(\[|\Z))", "", new, flags=re.MULTILINE)
    return _checked(text, emptied, table, key, None)


def _listed(text: str, table: str, key: str) -> list[Any]:
    found = load(text).get(table)
    listed = found.get(key) if isinstance(found, dict) else None
    return listed if isinstance(listed, list) else []


def _find(text: str, table: str, pattern: str) -> re.Match[str] | None:
    """Find what begins a line between a table's header and the next one."""
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
    """Make sure that the new text says just what was meant: TOML has many spellings."""
    meant = load(text)
    try:
        meant.setdefault(table, {})[key] = value
        agrees = _said(load_toml(new)) == _said(meant)
    except (ValueError, TypeError):  # it may be no table at all
        agrees = False
    if not agrees:
        raise HandoffError(
            f"{key} of [{table}] cannot be set without rewriting the configuration.",
            f"Set it by hand: {key} = {json.dumps(value)}",
        )
    return new


def _said(tables: dict[str, Any]) -> dict[str, Any]:
    """Leave out what says nothing: an empty table, and what has no value."""
    found = {
        name: {key: value for key, value in table.items() if value is not None}
        if isinstance(table, dict)
        else table
        for name, table in tables.items()
    }
    return {name: table for name, table in found.items() if table != {}}
