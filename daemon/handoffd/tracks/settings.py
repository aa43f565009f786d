"""Reads a project's own `handoff:` block from a fence of conductor/workflow.md. Pure."""

import re
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from handoff.common.triggers import TRIGGERS
from handoffd.redaction.redact import compile_patterns
from handoffd.session.text import keep
from handoffd.tracks import front_matter
from handoffd.tracks.markdown import info_of, lines_of, marked

STALE_DAYS = 7.0
# Triggers that a project cannot turn off.
ALWAYS = ("design-end", "pre-finish")
# Triggers that a list turns off by not naming them; idle has a setting of its own.
_LISTED = ("epic-start", "epic-end")
_IDLE_MAX_MINUTES = 24 * 60 - 1
_STALE_MAX_DAYS = 3650
_PATTERNS_MAX, _PATTERN_MAX = 50, 500
_PROBLEM_MAX = 400
_INFOS = ("yaml", "yml", "")
_BEGIN = re.compile(r"handoff:(?:\s.*)?")
_INSIDE = re.compile(r"\s.*|[}\]].*|")
_NUMBER = re.compile(r"[+-]?\d{1,12}(?:\.\d{1,6})?")
_WORDS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
_UNSET = ("", "null", "~")


@dataclass(frozen=True, slots=True)
class TrackSettings:
    """A project's settings for its handoffs; `problem` lists the invalid ones."""

    # None: the configuration decides. 0: never.
    idle_minutes: float | None = None
    # Triggers that are turned off; design-end and pre-finish cannot be.
    off: frozenset[str] = frozenset()
    # Name -> pattern, valid for redaction.redact.compile_patterns.
    secrets_patterns: dict[str, str] = field(default_factory=dict)
    stale_days: float = STALE_DAYS
    auto_select_single: bool = True
    show_drift: bool = True
    problem: str = ""


def read_settings(text: str) -> TrackSettings:
    """Read workflow.md. An invalid setting keeps its default and is reported in `problem`."""
    problems: list[str] = []
    said = _block(text, problems)
    reader = _Reader(said, problems)
    resume = _Reader(reader.mapping("resume"), problems, "resume.")
    off = _disabled_triggers(said.get("auto_triggers"), problems)
    stale = resume.number("stale_threshold_days", _STALE_MAX_DAYS)
    # A project that wants no prompt on idling wants no handoff on idling.
    if not reader.flag("idle_prompt_enabled"):
        off |= {"idle"}
    return TrackSettings(
        idle_minutes=reader.number("idle_threshold_minutes", _IDLE_MAX_MINUTES),
        off=frozenset(off),
        secrets_patterns=_patterns(said.get("secrets_patterns"), problems),
        stale_days=STALE_DAYS if stale is None else stale,
        auto_select_single=resume.flag("auto_select_single"),
        show_drift=resume.flag("show_drift_analysis"),
        problem=keep("; ".join(problems), _PROBLEM_MAX),
    )


# Finding the block


def _block(text: str, problems: list[str]) -> Mapping[str, Any]:
    """Return the first `handoff:` mapping; a block that only looks like one is a problem."""
    wrong: list[str] = []
    for block in _blocks(text):
        try:
            found = front_matter.read(block).get("handoff")
        except front_matter.YamlError as problem:
            wrong.append(f"the handoff: block cannot be read: {problem}")
            continue
        if isinstance(found, dict):
            return found
        # A line of prose may begin with `handoff:`, too.
        if found not in _UNSET and not (isinstance(found, str) and " " in found):
            wrong.append("the handoff: block is no mapping")
    problems += wrong[:1]
    return {}


def _blocks(text: str) -> Iterator[str]:
    """Yield the candidates for the block, those in fences first: `handoff:` and the lines below.

    Only these lines are read, so that no other part of the file can spoil the block.
    """
    fenced: list[list[str]] = []
    free: list[str] = []
    before = ""
    for line, mark in marked(lines_of(text)):
        if mark and not before:
            fenced.append([line])
        elif mark:
            fenced[-1].append(line)
        else:
            free.append(line)
        before = mark
    for opening, *lines in fenced:
        if (info_of(opening).split() or [""])[0] in _INFOS:
            yield from _blocks_in(textwrap.dedent("\n".join(lines)).split("\n"), comments=True)
    yield from _blocks_in(free, comments=False)


def _blocks_in(lines: list[str], *, comments: bool) -> Iterator[str]:
    block: list[str] = []
    for line in lines:
        if _BEGIN.fullmatch(line):
            if block:
                yield "\n".join(block)
            block = [line]
        elif block and (_INSIDE.fullmatch(line) or (comments and line.startswith("#"))):
            block.append(line)
        elif block:
            yield "\n".join(block)
            block = []
    if block:
        yield "\n".join(block)


# Reading values


class _Reader:
    """Reads the values of a mapping; an invalid value is a problem and leaves the default."""

    def __init__(self, said: Mapping[str, Any], problems: list[str], prefix: str = "") -> None:
        self._said, self._problems, self._prefix = said, problems, prefix

    def _refuse(self, key: str, must: str) -> None:
        self._problems.append(f"{self._prefix}{key} must be {must}")

    def mapping(self, key: str) -> Mapping[str, Any]:
        value = self._said.get(key, {})
        if isinstance(value, dict):
            return value
        if value not in _UNSET:
            self._refuse(key, "a mapping")
        return {}

    def number(self, key: str, most: float) -> float | None:
        value = self._said.get(key, "")
        if value in _UNSET:
            return None
        if isinstance(value, str) and _NUMBER.fullmatch(value) and 0 <= float(value) <= most:
            return float(value)
        self._refuse(key, f"a number from 0 to {most}")
        return None

    def flag(self, key: str) -> bool:
        value = self._said.get(key, "")
        if value in _UNSET:
            return True
        if isinstance(value, str) and value.lower() in _WORDS:
            return _WORDS[value.lower()]
        self._refuse(key, "true or false")
        return True


def _disabled_triggers(said: Any, problems: list[str]) -> set[str]:
    if isinstance(said, list):
        return _disabled_by_list(said, problems)
    triggers = _Reader({"auto_triggers": "" if said is None else said}, problems)
    named = triggers.mapping("auto_triggers")
    reader = _Reader(named, problems, "auto_triggers.")
    _name_unknown(named, problems)
    off = {name for name in TRIGGERS if not reader.flag(name)}
    problems += [f"{name} cannot be off" for name in ALWAYS if name in off]
    # A manual handoff is always a request, so that there is nothing to turn off.
    return off - {*ALWAYS, "manual"}


def _disabled_by_list(listed: list[Any], problems: list[str]) -> set[str]:
    names = [name for name in listed if isinstance(name, str)]
    if len(names) < len(listed):
        problems.append("auto_triggers must be a list of names")
        return set()
    _name_unknown(names, problems)
    problems += [f"{name} cannot be off" for name in ALWAYS if name not in names]
    return set(_LISTED) - set(names)


def _name_unknown(names: Any, problems: list[str]) -> None:
    problems += [f"{name!r} is no trigger" for name in list(names)[:5] if name not in TRIGGERS]


def _patterns(said: Any, problems: list[str]) -> dict[str, str]:
    if said is None or said in _UNSET:
        return {}
    if not isinstance(said, list):
        problems.append("secrets_patterns must be a list")
        return {}
    if len(said) > _PATTERNS_MAX:
        problems.append(f"secrets_patterns has more than {_PATTERNS_MAX}; the rest is not used")
    named = {f"own-{number}": value for number, value in enumerate(said[:_PATTERNS_MAX], 1)}
    return {
        name: value for name, value in named.items() if _is_valid_pattern(name, value, problems)
    }


_ESCAPED = re.compile(r"\\.|\[\^?\]?[^\]]*\]")
_OPEN = re.compile(r"[*+]|\{\d*,\}")
_REPEATS_MAX = 3


def _is_simple(pattern: str) -> bool:
    """Return True if no text can make a pattern slow: a repository is not trusted with more.

    Groups under a repetition can take for ever, and so can many repetitions in a row.
    """
    bare = _ESCAPED.sub("x", pattern.removeprefix("(?i)"))
    return "(" not in bare and len(_OPEN.findall(bare)) <= _REPEATS_MAX


def _is_valid_pattern(name: str, pattern: Any, problems: list[str]) -> bool:
    if not isinstance(pattern, str) or len(pattern) > _PATTERN_MAX:
        problems.append(f"secrets_patterns: {name} must be a text of at most {_PATTERN_MAX}")
        return False
    if not _is_simple(pattern):
        problems.append(f"secrets_patterns: {name} may hold no groups, and three repetitions")
        return False
    try:
        compile_patterns({name: pattern})
    except (ValueError, RecursionError, OverflowError) as problem:
        problems.append(f"secrets_patterns: {problem}")
        return False
    return True
