"""The format of handoff.yaml: validate, parse and render it. Pure: text in, text out."""

import io
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import yaml

from handoff.common.errors import HandoffValidationError
from handoffd.runtime import clock
from handoffd.runtime.safe_yaml import YamlBombError, refuse_bombs
from handoffd.session.fields import FIELDS, LISTS, STATUSES

SIZE_MAX_BYTES = 64 << 10
_DEPTH_MAX = 20
_COMMENT = re.compile(r"(?m)(?:^|\s)#")


class CheckpointError(ValueError):
    """The text is not a checkpoint; the message says why."""


class _Loader(yaml.CSafeLoader):
    """A loader without the surprises of YAML 1.1: a time, `no`, `12:30` and `010` stay text."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012  PyYAML's own class attribute


for _tag, _pattern, _first in (
    ("tag:yaml.org,2002:null", r"(?:~|null|Null|NULL|)\Z", ["~", "n", "N", ""]),
    ("tag:yaml.org,2002:bool", r"(?:true|True|TRUE|false|False|FALSE)\Z", list("tTfF")),
    ("tag:yaml.org,2002:int", r"[-+]?(?:0|[1-9][0-9]{0,17})\Z", list("-+0123456789")),
    ("tag:yaml.org,2002:float", r"[-+]?[0-9]+\.[0-9]+\Z", list("-+0123456789")),
):
    _Loader.add_implicit_resolver(_tag, re.compile(_pattern), _first)


def parse(text: str) -> dict[str, Any] | None:
    """Parse a checkpoint. Return None if it is empty or holds nothing but nulls."""
    try:
        refuse_bombs(text, _DEPTH_MAX, tags=False)
        data = yaml.load(text, Loader=_Loader)  # noqa: S506  a safe loader of our own
    except YamlBombError as problem:
        raise CheckpointError(str(problem)) from None
    except Exception as problem:  # noqa: BLE001  a person's file may hold anything
        raise CheckpointError(f"invalid YAML: {_first_line(problem)}") from None
    if data is None:
        return None
    if not isinstance(data, dict) or not all(isinstance(key, str) for key in data):
        raise CheckpointError("not a mapping of names to values")
    return data if any(value is not None for value in data.values()) else None


def _first_line(problem: Exception) -> str:
    mark = getattr(problem, "problem_mark", None)
    where = f" in line {mark.line + 1}" if mark else ""
    return f"{getattr(problem, 'problem', None) or str(problem).splitlines()[0]}{where}"


def validate(data: Mapping[str, Any]) -> None:
    """Raise an error that names the field if a checkpoint breaks the specification."""
    for field in ("goal", "now"):
        value = data.get(field)
        if not isinstance(value, str) or not value.strip():
            raise HandoffValidationError(
                f"Missing or empty required field: {field}", f"Give `{field}` as a non-empty text."
            )
    _validate_status(data.get("status"))
    for field in ("hypothesis", "outcome", "branch", "session_id", "timestamp"):
        value = data.get(field)
        if value is not None and not isinstance(value, str):
            raise HandoffValidationError(f"Field {field} must be a text or null")
    _validate_timestamp(data.get("timestamp"))
    files = data.get("files")
    if files is not None and not (
        isinstance(files, list) and all(isinstance(path, str) for path in files)
    ):
        raise HandoffValidationError("Field files must be a list of texts")


def _validate_status(status: Any) -> None:
    if status is None or status == "":
        raise HandoffValidationError("Missing required field: status")
    if status not in STATUSES:
        allowed = ", ".join(sorted(STATUSES))
        raise HandoffValidationError(f"Invalid status {status!r}. Must be one of: {allowed}")


def _validate_timestamp(timestamp: str | None) -> None:
    if timestamp is not None and not clock.is_iso(timestamp):
        raise HandoffValidationError(
            f"Invalid timestamp {timestamp!r}. It must be a time in ISO 8601",
            "Leave it out, or give it as in 2026-01-17T10:30:00Z.",
        )


def ordered(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the specified fields first, then ours, then all others in their own order."""
    known = (*FIELDS, *LISTS)
    first = {key: data[key] for key in known if key in data}
    return first | {key: value for key, value in data.items() if key not in first}


def with_tags(data: dict[str, Any], tags: Sequence[str]) -> dict[str, Any]:
    """Return a checkpoint with these tags added to its own."""
    if not tags:
        return data
    found = data.get("tags")
    known = [tag for tag in found if isinstance(tag, str)] if isinstance(found, list) else []
    return {**data, "tags": list(dict.fromkeys([*known, *tags]))}


def render(data: Mapping[str, Any], previous: str | None = None) -> str:
    """Return a checkpoint as YAML, with the comments that a person wrote into the previous text."""
    arranged = ordered(data)
    if previous is not None and "#" in previous and _COMMENT.search(previous):
        return _render_over(arranged, previous)
    # libyaml writes an emoji as an escape; the slower dumper writes it as it is.
    shown = str(arranged)
    plain = shown.isascii() or max(map(ord, shown)) < 0x10000  # noqa: PLR2004
    dumper: Any = yaml.CSafeDumper if plain else yaml.SafeDumper
    return str(yaml.emit(_events(arranged), Dumper=dumper, allow_unicode=True, width=1000))


def _events(data: dict[str, Any]) -> Iterator[yaml.Event]:
    """Yield the events of a document; yaml.dump takes twice as long to make the same events."""
    yield yaml.StreamStartEvent()
    yield yaml.DocumentStartEvent(explicit=False)
    yield from _node(data)
    yield yaml.DocumentEndEvent(explicit=False)
    yield yaml.StreamEndEvent()


def _node(value: Any) -> Iterator[yaml.Event]:
    if isinstance(value, dict):
        yield yaml.MappingStartEvent(None, None, implicit=True, flow_style=not value)
        for key, item in value.items():
            yield from _node(key)
            yield from _node(item)
        yield yaml.MappingEndEvent()
    elif isinstance(value, list):
        yield yaml.SequenceStartEvent(None, None, implicit=True, flow_style=not value)
        for item in value:
            yield from _node(item)
        yield yaml.SequenceEndEvent()
    elif isinstance(value, str):
        yield yaml.ScalarEvent(None, None, (_is_text_unquoted(value), True), value)
    elif value is None or isinstance(value, (bool, int, float)):
        text = "null" if value is None else str(value).lower()
        yield yaml.ScalarEvent(None, None, (True, False), text)
    else:
        raise HandoffValidationError(f"A {type(value).__name__} cannot be written")


@lru_cache(maxsize=256)
def _is_text_unquoted(value: str) -> bool:
    """Return True if every YAML reader, even an old one, reads the unquoted value as text."""
    resolvers = yaml.SafeDumper.yaml_implicit_resolvers
    return not any(pattern.match(value) for _, pattern in resolvers.get(value[:1], ()))


def _render_over(data: dict[str, Any], previous: str) -> str:
    # Imported only here: it is heavy, and only a file with comments needs it.
    from ruamel.yaml import YAML  # noqa: PLC0415

    editor = YAML()
    editor.preserve_quotes = True
    editor.width = 1000
    editor.representer.add_representer(type(None), _represent_null)
    known = parse(previous) or {}
    try:
        document = editor.load(previous)
    except Exception as problem:  # noqa: BLE001  an invalid date, and the like
        why = f"it cannot be rewritten with its comments: {_first_line(problem)}"
        raise CheckpointError(why) from None
    if not isinstance(document, dict):
        return render(data)
    for key in [key for key in document if key not in data]:
        del document[key]
    for key, value in data.items():
        if key not in known or known[key] != value:
            document[key] = value
    stream = io.StringIO()
    editor.dump(document, stream)
    written = parse(stream.getvalue()) or {}
    # The two libraries do not agree on every odd text; a person's values must not change.
    theirs = {key: value for key, value in data.items() if key in known and known[key] == value}
    if theirs != {key: value for key, value in written.items() if key in theirs}:
        raise CheckpointError("it cannot be rewritten with its comments")
    return stream.getvalue()


def _represent_null(representer: Any, _value: None) -> Any:
    return representer.represent_scalar("tag:yaml.org,2002:null", "null")
