"""Turn the bytes of a transcript line into records. Pure; never raises: the format is not ours.

A decoder that knows the fields we look at, and skips all others, reads nearly every line. A line
that this decoder rejects is parsed again by hand.
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
    """One block of a message; a tool's input and output are decoded only where they are needed."""

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
    """One JSON object of a transcript and the offset at which it starts."""

    offset: int = 0
    type: str = ""
    uuid: str = ""
    # None for a root; empty if the record does not say.
    parent_uuid: str | None = ""
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
    operation: str | None = None
    ai_title: str | None = None
    custom_title: str | None = None
    tracking_path: str | None = None
    backup: Raw = _ABSENT
    snapshot: Raw = _ABSENT
    is_snapshot_update: bool | None = None
    pr_number: int | None = None
    pr_url: str | None = None
    relocated_cwd: str | None = None
    worktree_session: Raw = _ABSENT

    @property
    def directory(self) -> str:
        """The working directory, or an empty string if it is no valid absolute path."""
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
    """The records of one line, and whether a part of the line could not be read."""

    records: tuple[Record, ...]
    damaged: bool = False


def is_absolute(path: str) -> bool:
    return path.startswith("/") and len(path) <= PATH_MAX and "\0" not in path


_decode_record = msgspec.json.Decoder(Record).decode


def parse_line(offset: int, line: bytes) -> Parsed:
    """Return the records of a line, even if it holds runs of NUL or glued objects (`}{`)."""
    try:
        record = _decode_record(line)
    except (ValueError, RecursionError):
        return _parse_by_hand(offset, line)
    record.offset = offset
    return Parsed((record,))


def read(shape: type[T], raw: Raw) -> T:
    """Return an inner object; a field that is missing or of another type has its default."""
    if not raw:
        return shape()
    try:
        return _decoder_of(shape)(raw)  # type: ignore[no-any-return]  # `cache` forgets the type
    except (ValueError, RecursionError):
        inner = value_of(raw)
        return build(shape, inner) if isinstance(inner, dict) else shape()


def context_tokens(usage: bytes) -> int:
    """Return how many tokens of the model's context were in use before an answer."""
    found = read(_Usage, Raw(usage))
    return found.input_tokens + found.cache_creation_input_tokens + found.cache_read_input_tokens


def value_of(raw: Raw) -> Any:
    """Return an inner value of any type; None if there is none."""
    if not raw:
        return None
    try:
        return msgspec.json.decode(raw)
    except (ValueError, RecursionError):
        found, _ = _decode(bytes(raw).decode("utf-8", "surrogateescape"), 0)
        return found


def build(shape: type[T], data: dict[str, Any]) -> T:
    """Build a shape by hand, field by field; leave out values of a wrong type."""
    known = {}
    for name, key, convert in _converters(shape):
        if key in data and (value := convert(data[key])) is not None:
            known[name] = value
    return shape(**known)


@cache
def _decoder_of(shape: type[T]) -> Callable[[Raw], T]:
    return msgspec.json.Decoder(shape).decode


@cache
def _converters(shape: type[Shape]) -> list[tuple[str, str, Callable[[Any], Any]]]:
    return [
        (field.name, field.encode_name, _converter(field.type))
        for field in msgspec.structs.fields(shape)
    ]


def _converter(kind: Any) -> Callable[[Any], Any]:
    """Return a function that converts a JSON value to a field's type, or returns None."""
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
        position = _blanks.match(text, end).end()  # type: ignore[union-attr]  # it also matches no blanks
    return Parsed(tuple(records), damaged)


def _decode(text: str, position: int) -> tuple[Any, int]:
    try:
        value, end = _decoder.raw_decode(text, position)
        return _without_surrogates(value), end
    except (ValueError, RecursionError):
        return None, position


def _without_surrogates(value: Any) -> Any:
    """Replace half characters (lone surrogates): a text with one can be neither stored nor sent."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode()
    if isinstance(value, list):
        return [_without_surrogates(item) for item in value]
    if isinstance(value, dict):
        return {_without_surrogates(key): _without_surrogates(item) for key, item in value.items()}
    return value


def _recover(text: str, position: int) -> tuple[int, Any, int]:
    """Find the record that was appended to a killed writer's half line; it ends with the line."""
    for _ in range(_RECOVERY_TRIES):
        position = text.find('{"', position + 1)
        if position < 0:
            break
        value, end = _decode(text, position)
        if isinstance(value, dict) and end == len(text) and isinstance(value.get("type"), str):
            return position, value, end
    return position, None, position
