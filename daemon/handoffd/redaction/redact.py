"""Mask the secrets in a text: every text that is kept, logged, shown or sent passes here.

`candidates` finds the few places where a secret could be; `kinds`, `carriers`, `assignments` and
`private_keys` describe the secrets that may be there. The whole secret is replaced by its kind.
"""

import base64
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, islice

from handoffd.redaction.assignments import find_assigned, find_named_in_other_scripts
from handoffd.redaction.candidates import (
    SEPARATORS,
    Middle,
    Opening,
    SearchTable,
    as_bytes,
    compiled,
)
from handoffd.redaction.carriers import CARRIERS, FILLER, is_userinfo
from handoffd.redaction.private_keys import Found, find_unmarked
from handoffd.redaction.randomness import looks_random
from handoffd.redaction.reading import Reading, reading

_table = SearchTable()
# The user's own patterns: (kind, pattern).
_own_patterns: tuple[tuple[str, re.Pattern[str]], ...] = ()
# Kinds that are less specific than any other kind at the same place.
_VAGUE = (
    "password",
    "secret",
    "bearer-token",
    "url-password",
    "basic-auth",
    "authorization",
    "cookie",
)
# How many characters of a token are examined at first. A secret that ends near this limit may be
# cut, so it is then read to its end.
_FAR, _NEARLY = 1024, 128
# More places than a megabyte of ordinary text has.
_SPOTS_MAX = 40_000
# `(a+)+`: a pattern that makes a search take for ever.
_REPEATED = re.compile(r"(?:[+*]|,\})\??\)+(?:[+*]|\{\d*,)")
_DIFFERENT = 3  # characters; "ghp_xxxxxxxx" has one


def may_hold_secret(text: str) -> bool:
    """Return False if a quick look shows that a text holds no secret."""
    data = as_bytes(text)
    if next(_table.spots(text, data), None) or next(find_unmarked(text, data), None):
        return True
    if reading(text, data) or (not text.isascii() and any(find_named_in_other_scripts(text))):
        return True
    return any(pattern.search(text) for _, pattern in _own_patterns)


def takes_long(text: str) -> bool:
    """Return True for a text with so many candidate places that masking takes seconds."""
    spots = _table.spots(text, data := as_bytes(text))
    if read := reading(text, data):
        spots = chain(spots, _table.spots(read.text, as_bytes(read.text)))
    return next(islice(spots, _SPOTS_MAX, None), None) is not None


def redact(text: str) -> tuple[str, tuple[str, ...]]:
    """Return the text with secrets masked, and the kinds that were found."""
    data = as_bytes(text)
    read = reading(text, data)
    found = _find_as_read(read) if read else _find_in(text, data)
    if not found:
        return text, ()
    parts: list[str] = []
    kinds: list[str] = []
    done = 0
    for start, end, kind in _merged(found):
        parts += text[done:start], f"[redacted:{kind}]"
        kinds.append(kind)
        done = end
    return "".join([*parts, text[done:]]), tuple(kinds)


def _find_as_read(read: Reading) -> list[Found]:
    found = _find_in(read.text, as_bytes(read.text))
    mapped = [(*read.span(start, end), kind) for start, end, kind in found]
    return [*_find_in(read.without_colours, as_bytes(read.without_colours)), *mapped]


def _find_in(text: str, data: bytes) -> list[Found]:
    foreign = () if text.isascii() else find_named_in_other_scripts(text)
    return [
        *_find_at_spots(text, data),
        *find_unmarked(text, data),
        *foreign,
        *_find_by_own_patterns(text),
    ]


def known_kinds(text: str) -> list[str]:
    """Return the kinds of those secrets in a text that are recognised by their form."""
    return [kind for kind in dict.fromkeys(redact(text)[1]) if kind not in _VAGUE]


def use_patterns(patterns: Mapping[str, str]) -> None:
    """Also mask matches of these patterns, under their names; they replace earlier ones."""
    global _own_patterns  # noqa: PLW0603  the only setting of this package
    _own_patterns = compile_patterns(patterns)


def compile_patterns(patterns: Mapping[str, str]) -> tuple[tuple[str, re.Pattern[str]], ...]:
    """Compile a user's own patterns; raise a ValueError that names an invalid one.

    A pattern that repeats a repetition is refused, since a search for it may never end.
    """
    return tuple((name, _compiled(name, pattern)) for name, pattern in patterns.items())


def _compiled(name: str, pattern: str) -> re.Pattern[str]:
    if not re.fullmatch(r"[\w-]{1,40}", name):
        raise ValueError(f"redaction pattern {name!r}: a name has letters, digits, - and _ only")
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise ValueError(f"redaction pattern {name!r}: {error}") from None
    if _REPEATED.search(pattern):
        raise ValueError(f"redaction pattern {name!r}: it repeats a repetition, and may never end")
    if compiled.search(""):
        raise ValueError(f"redaction pattern {name!r}: it matches the empty text")
    return compiled


def _merged(found: list[Found]) -> Iterator[Found]:
    """Merge overlapping spans; all of it is masked under the most specific kind."""
    found.sort()
    start, end, kind = found[0]
    for other_start, other_end, other_kind in found[1:]:
        if other_start < end:
            end = max(end, other_end)
            kind = other_kind if kind in _VAGUE else kind
        else:
            yield start, end, kind
            start, end, kind = other_start, other_end, other_kind
    yield start, end, kind


def _find_at_spots(text: str, data: bytes) -> Iterator[Found]:
    anchor = done = 0
    for seen, at in _table.spots(text, data):
        # The places of one anchor come in order, so places inside a found secret are skipped.
        if seen[0] != anchor:
            anchor, done = seen[0], 0
        if at < done:
            continue
        for found in _find_at(text, seen, at):
            done = max(done, found[1])
            if found[2]:
                yield found


def _find_at(text: str, seen: bytes, at: int) -> Iterator[Found]:
    separator = seen[0] in SEPARATORS.encode()
    if separator:
        yield from _find_tokens(text, at, _table.openings_ending_at(text, at) or ())
        yield from _find_middles(text, at, _table.middles.get(seen[:1], ()))
    yield from _find_middles(text, at, _table.middles.get(seen, ()))
    if seen in _table.openings:
        yield from _find_tokens(text, at, _table.openings[seen])
    elif seen in CARRIERS:
        yield from CARRIERS[seen](text, at)
    elif not separator:
        yield from find_assigned(text, at)


def _find_tokens(text: str, at: int, openings: Iterable[Opening]) -> Iterator[Found]:
    for back, kind, source in openings:
        pattern = compiled(source)
        token = pattern.match(text, at - back, at + _FAR) if at >= back else None
        if not token:
            continue
        if span := _secret_part(token):
            if token.end() > at + _FAR - _NEARLY and (whole := pattern.match(text, at - back)):
                span = span[0], whole.end()
            yield *span, kind
            if kind == "aws-key":
                yield from _aws_secrets(text, span[1])
            return
        if token.end() > at + _FAR - _NEARLY:
            # "ghp_ghp_ghp_…": reading that far again from each opening would take minutes.
            yield at, token.end() - _NEARLY, ""


# The name of a group in a pattern -> the test that its value has to pass.
_PARTS: dict[str, Callable[[str], bool]] = {
    "secret": lambda value: len(set(value)) >= _DIFFERENT,
    "drawn": lambda value: looks_random(value, 12),
    "userinfo": is_userinfo,
    "path": lambda value: any(looks_random(part, 16) for part in value.split("/")),
}


def _secret_part(token: re.Match[str]) -> tuple[int, int] | None:
    """Return the span of a token to be masked, or None if it is a placeholder."""
    for name in token.re.groupindex:
        value = token[name]
        return token.span(name) if _PARTS[name](value) and not FILLER.search(value) else None
    if token[0].startswith("eyJ") and not _has_header(token[0]):
        return None
    return token.span() if _is_varied(token[0]) else None


def _has_header(jwt: str) -> bool:
    """Return True if the first part of a token is a JSON object in base64."""
    header, dot, _ = jwt.partition(".")
    try:
        json.loads(base64.urlsafe_b64decode(header + "=" * (-len(header) % 4)))
    except (ValueError, RecursionError):
        return not dot
    return True


def _is_varied(token: str) -> bool:
    if FILLER.search(token) or len(set(token[4:])) < _DIFFERENT:
        return False
    return any(c.isdigit() for c in token) or not token.islower()


def _find_middles(text: str, at: int, middles: Iterable[Middle]) -> Iterator[Found]:
    for offset, kind, ahead, back, pattern in middles:
        if not compiled(ahead).match(text, at - offset):
            continue
        for start in (at - offset - distance for distance in back):
            token = compiled(pattern).match(text, start) if start >= 0 else None
            if token and _is_varied(token[0]):
                yield *token.span(), kind


_AWS_SECRET = re.compile(r"(?<![A-Za-z0-9/+])[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+=])")


def _aws_secrets(text: str, start: int) -> Iterator[Found]:
    """Yield the secret that follows an access key without a name."""
    for value in _AWS_SECRET.finditer(text, start, start + 120):
        if looks_random(value[0], 40) and not value[0].islower():
            yield *value.span(), "aws-key"


_MASK = re.compile(r"\[redacted:[\w-]{1,40}\]")


def _find_by_own_patterns(text: str) -> Iterator[Found]:
    masks = [mask.span() for mask in _MASK.finditer(text)] if _own_patterns else []
    for kind, pattern in _own_patterns:
        for start, end in (match.span() for match in pattern.finditer(text)):
            # The text of a mask is not masked again.
            if start < end and all(end <= mask[0] or mask[1] <= start for mask in masks):
                yield start, end, kind
