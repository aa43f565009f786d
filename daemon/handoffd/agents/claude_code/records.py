"""Bytes of a transcript line to records. Pure, and never raises: the format is not ours.

Nearly every line is read by a decoder that knows which fields we look at and jumps over the
rest; a line that it cannot take is read again by hand, whatever it holds.
"""

import json
import re
from collections.abc import Callable
from functools import cache
from types import NoneType
from typing import Any, NamedTuple, TypeVar, get_args

import msgspec

from handoff.common.paths import PATH_MAX

_decoder = json.JSONDecoder(strict=False)
_BLANK = "\x00 \t\r\n"
_blanks = re.compile(f"[{_BLANK}]*")
_RECOVERY_TRIES = 50
# Undecoded JSON.
Raw = msgspec.Raw
_ABSENT = Raw(b"")


class Shape(msgspec.Struct, gc=False):
    """The fields of a JSON object that we look at."""


T = TypeVar("T", bound=Shape)


class Block(Shape, gc=False):
    """One block of a message; what a tool was given or gave is decoded only where it is wanted."""

    type: str = ""
    text: str = ""
    id: str = ""
    name: str = ""
    input: Raw = _ABSENT
    tool_use_id: str = ""
    is_error: bool | None = None
    content: Raw = _ABSENT


class Message(Shape, gc=False):
    model: str | None = None
    content: str | list[Block] | None = None
    stop_reason: str | None = None
    usage: Raw = _ABSENT


class Record(Shape, gc=False, rename="camel"):
    """One JSON object of a transcript and where it starts."""

    offset: int = 0
    type: str = ""
    uuid: str = ""
    parent_uuid: str | None = None
    session_id: str = ""
    timestamp: str = ""
    is_sidechain: bool | None = None
    is_meta: bool | None = None
    is_compact_summary: bool | None = None
    is_api_error_message: bool | None = None
    cwd: str = ""
    git_branch: str | None = None
    entrypoint: str = ""
    subtype: str = ""
    message: Message | None = None
    content: Raw = _ABSENT
    attachment: Raw = _ABSENT
    tool_use_result: Raw = _ABSENT
    tool_denial_kind: str | None = None
    user_feedback: str | None = None
    origin: Raw = _ABSENT
    team_name: Raw = _ABSENT
    compact_metadata: Raw = _ABSENT
    ai_title: str | None = None
    custom_title: str | None = None
    tracking_path: str | None = None
    pr_number: int | None = None
    pr_url: str | None = None
    relocated_cwd: str | None = None
    worktree_session: Raw = _ABSENT

    @property
    def directory(self) -> str:
        """The working directory, if it can be one."""
        return self.cwd if is_absolute(self.cwd) else ""

    @property
    def blocks(self) -> list[Block]:
        content = self.message.content if self.message else None
        return content if isinstance(content, list) else []


class _Usage(Shape, gc=False):
    input_tokens: int = 0
    cache_creation_input_tokens: int = 0
    cache_read_input_tokens: int = 0


class Parsed(NamedTuple):
    """The records of one line, and whether some of it could not be read."""

    records: tuple[Record, ...]
    damaged: bool = False


def is_absolute(path: str) -> bool:
    return path.startswith("/") and len(path) <= PATH_MAX and "\0" not in path


_decode_record = msgspec.json.Decoder(Record).decode


def parse_line(offset: int, line: bytes) -> Parsed:
    """Read a line, also one with NUL runs or with objects glued together (`}{`)."""
    try:
        record = _decode_record(line)
    except (ValueError, RecursionError):
        return _parse_by_hand(offset, line)
    record.offset = offset
    return Parsed((record,))


def read(shape: type[T], raw: Raw) -> T:
    """Return an inner object; what is missing or of another type has its default."""
    if not raw:
        return shape()
    try:
        return _decoder_of(shape)(raw)  # type: ignore[no-any-return]  # `cache` forgets the type
    except (ValueError, RecursionError):
        inner = value_of(raw)
        return build(shape, inner) if isinstance(inner, dict) else shape()


def context_tokens(usage: bytes) -> int:
    """Return how much of the model's context an answer found in use."""
    found = read(_Usage, Raw(usage))
    return found.input_tokens + found.cache_creation_input_tokens + found.cache_read_input_tokens


def value_of(raw: Raw) -> Any:
    """Return an inner value, whatever it is; None if there is none."""
    if not raw:
        return None
    try:
        return msgspec.json.decode(raw)
    except (ValueError, RecursionError):
        found, _ = _decode(bytes(raw).decode("utf-8", "surrogateescape"), 0)
        return found


def build(shape: type[T], data: dict[str, Any]) -> T:
    """Make a shape by hand, field by field, leaving out what does not fit."""
    known = {}
    for name, key, fit in _fits(shape):
        if key in data and (value := fit(data[key])) is not None:
            known[name] = value
    return shape(**known)


@cache
def _decoder_of(shape: type[T]) -> Callable[[Raw], T]:
    return msgspec.json.Decoder(shape).decode


@cache
def _fits(shape: type[Shape]) -> list[tuple[str, str, Callable[[Any], Any]]]:
    return [
        (field.name, field.encode_name, _fit(field.type)) for field in msgspec.structs.fields(shape)
    ]


def _fit(kind: Any) -> Callable[[Any], Any]:
    if kind is Raw:
        return _encoded
    wanted = [member for member in get_args(kind) or (kind,) if member is not NoneType]
    if Message in wanted:
        return lambda value: build(Message, value) if isinstance(value, dict) else None
    if list[Block] in wanted:
        return _content
    return lambda value: value if type(value) in wanted else None


def _encoded(value: Any) -> Raw | None:
    try:
        return Raw(json.dumps(value).encode())
    except RecursionError:
        return None


def _content(value: Any) -> str | list[Block] | None:
    if isinstance(value, list):
        return [build(Block, item) for item in value if isinstance(item, dict)]
    return value if isinstance(value, str) else None


def _parse_by_hand(offset: int, line: bytes) -> Parsed:
    text = line.decode("utf-8", "surrogateescape").strip(_BLANK)
    if not text:
        return Parsed((), damaged=b"\x00" in line)
    offset += len(line) - len(line.lstrip(_BLANK.encode()))
    records: list[Record] = []
    position, counted, damaged = 0, 0, False
    while position < len(text):
        value, end = _decode(text, position)
        if not isinstance(value, dict):
            damaged = True
            position, value, end = _recover(text, position)
        if not isinstance(value, dict):
            break
        offset += len(text[counted:position].encode("utf-8", "surrogateescape"))
        counted = position
        records.append(build(Record, {**value, "offset": offset}))
        position = _blanks.match(text, end).end()  # type: ignore[union-attr]  # it matches nothing, too
    return Parsed(tuple(records), damaged)


def _decode(text: str, position: int) -> tuple[Any, int]:
    try:
        value, end = _decoder.raw_decode(text, position)
        return _whole(value), end
    except (ValueError, RecursionError):
        return None, position


def _whole(value: Any) -> Any:
    """Replace halves of characters: what holds one can neither be stored nor sent."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode()
    if isinstance(value, list):
        return [_whole(item) for item in value]
    if isinstance(value, dict):
        return {_whole(key): _whole(item) for key, item in value.items()}
    return value


def _recover(text: str, position: int) -> tuple[int, Any, int]:
    """Find the record that was appended to a killed writer's half line: it ends the line."""
    for _ in range(_RECOVERY_TRIES):
        position = text.find('{"', position + 1)
        if position < 0:
            break
        value, end = _decode(text, position)
        if isinstance(value, dict) and end == len(text) and isinstance(value.get("type"), str):
            return position, value, end
    return position, None, position
