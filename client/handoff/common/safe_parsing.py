"""A parser of JSON and TOML of others; it refuses documents that are nested too deeply."""

import json
import tomllib
from typing import Any

DEPTH_MAX = 100


class TooDeepError(ValueError):
    """A document is nested more deeply than DEPTH_MAX levels."""

    def __init__(self) -> None:
        super().__init__(f"it is nested more than {DEPTH_MAX} levels deep")


def load_json(text: str | bytes, **options: Any) -> Any:
    """Parse JSON; every problem with it is a ValueError."""
    try:
        return _shallow(json.loads(text, **options))
    except RecursionError:
        raise TooDeepError from None


def load_toml(text: str) -> dict[str, Any]:
    """Parse TOML; every problem with it is a ValueError."""
    try:
        found: dict[str, Any] = _shallow(tomllib.loads(text))
    except RecursionError:
        raise TooDeepError from None
    return found


def _shallow(value: Any) -> Any:
    """Return the value if code can walk it by recursion; the check itself goes level by level."""
    level = [value]
    for _ in range(DEPTH_MAX + 1):
        level = [item for outer in level for item in _items(outer)]
        if not level:
            return value
    raise TooDeepError


def _items(value: Any) -> list[Any]:
    """Return the containers in a container; an object may have been parsed into pairs."""
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, list | tuple):
        return []
    return [item for item in value if isinstance(item, dict | list | tuple)]
