"""A track record as a mail: renders its subject and body, and reads them again. Pure."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from handoff.common.triggers import EPIC_TRIGGERS
from handoffd.session.text import clean
from handoffd.tracks.front_matter import one_line
from handoffd.tracks.markdown import lines_of, stripped
from handoffd.tracks.record import MISSING, UNKNOWN, TrackRecord, parse, render, utc

SUBJECT_MAX = 200
FILE_MARK = "**File:**"
ONLY_SUBJECT = "Only the subject of this message is known."
NO_TIME = "The time of this message is not known."

_IMPORTANT = ("design-end", "epic-start", "epic-end", "pre-finish")
_VALIDATION_MARK = "**Validation:**"
_SUBJECT = re.compile(
    r"(?i)\s*(?:(?:re|fwd?):\s*)*\[HANDOFF:\s*(?P<trigger>[^\]\s]+)\s*\]"
    r"\s*(?P<track>\S+)(?:\s+[-–—]+\s*(?P<brief>.*))?.*"
)
_LABELLED = re.compile(
    r"(?i)\s*(?:[-*+]\s+)?(?:\*\*(?P<bold>track|trigger|phase|git|bead)(?::\*\*|\*\*:)"
    r"|(?P<plain>track|trigger|phase|git|bead):)\s*(?P<value>.*)"
)
_GATES = re.compile(r"gates_passed\s*=\s*\[(?P<gates>[^\]]*)\]")
_GATE = re.compile(r"current_gate\s*=\s*(?P<gate>[^,]*)")
_COMMIT = re.compile(r"(?i)[0-9a-f]{4,40}|unknown")


def subject(record: TrackRecord, brief: str) -> str:
    """Return `[HANDOFF:<trigger>] <track_id> - <brief>`."""
    said = f"[HANDOFF:{record.trigger}] {record.track_id}"
    return one_line(f"{said} - {brief}" if brief.strip() else said, SUBJECT_MAX)


def importance(trigger: str) -> str:
    return "high" if trigger in _IMPORTANT else "normal"


def body(record: TrackRecord, phase: str, path: str) -> str:
    """Return the four sections with the record's metadata, and the path of its file."""
    context = [*_head(record, phase), "", *record.sections.get("Context", ())]
    text = render(replace(record, sections={**record.sections, "Context": context}))
    text = text.partition("\n---\n")[2].lstrip("\n")
    if not record.sections.get(""):
        text = text.partition("\n")[2].lstrip("\n")  # the subject serves as the title
    where = clean(path).replace("\n", " ").strip()
    trailer = [*_validation(record.validation_snapshot), f"{FILE_MARK} {where}"]
    return "\n".join([text, *trailer, ""])


def read(message_subject: str, message_body: str, created: str) -> TrackRecord | None:
    """Return the record of a message, or None if it is no handoff."""
    lines, validation = _without_trailer(lines_of(message_body))
    record = parse("\n".join(lines), "")
    said, context = _split_context(list(record.sections.get("Context", ())))
    sections = {**record.sections, "Context": context} if said else record.sections
    if said and record.warning == MISSING:
        # Other bold lines in a message of ours are text, not metadata.
        record = TrackRecord("", UNKNOWN, UNKNOWN)
    record = replace(
        record,
        timestamp=record.timestamp or utc(created),
        validation_snapshot=validation or record.validation_snapshot,
        sections=sections,
    )
    said = said or _labelled([*sections.get("", ()), *context])
    titled = _SUBJECT.fullmatch(one_line(message_subject))
    record = _completed(record, said, titled.groupdict(default="") if titled else {})
    return None if UNKNOWN in (record.trigger, record.track_id) else record


def _head(record: TrackRecord, phase: str) -> list[str]:
    branch, commit = record.git_branch or UNKNOWN, record.git_commit or UNKNOWN
    lines = [
        f"- **Track:** {one_line(record.track_id)}",
        f"- **Trigger:** {one_line(record.trigger)}",
        f"- **Phase:** {one_line(phase) or UNKNOWN}",
        f"- **Git:** {one_line(branch)}@{one_line(commit)}",
    ]
    if record.bead_id and record.trigger in EPIC_TRIGGERS:
        lines.append(f"- **Bead:** {one_line(record.bead_id)}")
    return lines


def _validation(snapshot: Mapping[str, Any] | None) -> list[str]:
    if not snapshot:
        return []
    passed = snapshot.get("gates_passed") or []
    gates = passed if isinstance(passed, list | tuple) else [passed]
    said = f"gates_passed=[{', '.join(_gate_name(gate) for gate in gates)}]"
    gate = snapshot.get("current_gate")
    return [f"{_VALIDATION_MARK} {said}" + (f", current_gate={_gate_name(gate)}" if gate else "")]


def _gate_name(gate: object) -> str:
    """Return a gate's name without the characters that separate gates."""
    return one_line(re.sub(r"[\[\],]", " ", str(gate)))


def _without_trailer(lines: list[str]) -> tuple[list[str], dict[str, Any] | None]:
    """Return the lines without the trailer about the record, if a blank line precedes it."""
    rest = stripped(lines)
    if rest and rest[-1].startswith(FILE_MARK):
        rest.pop()
    found = rest.pop() if rest and rest[-1].startswith(_VALIDATION_MARK) else ""
    if rest and rest[-1].strip():
        return lines, None
    return rest, _read_validation(found)


def _read_validation(line: str) -> dict[str, Any] | None:
    gates, gate = _GATES.search(line), _GATE.search(line)
    snapshot: dict[str, Any] = {}
    if gates:
        names = (name.strip(" \"'`") for name in gates["gates"].split(","))
        snapshot["gates_passed"] = [name for name in names if name]
    if gate and gate["gate"].strip():
        snapshot["current_gate"] = gate["gate"].strip()
    return snapshot or None


def _split_context(lines: list[str]) -> tuple[dict[str, str], list[str]]:
    """Return the labelled lines at the beginning of a Context of ours, and the text after them."""
    end = next((n for n, line in enumerate(lines) if not _LABELLED.fullmatch(line)), len(lines))
    said = _labelled(lines[:end])
    if {"track", "trigger"} <= said.keys():
        return said, stripped(lines[end:])
    return {}, lines


def _labelled(lines: Sequence[str]) -> dict[str, str]:
    said: dict[str, str] = {}
    for found in filter(None, map(_LABELLED.fullmatch, lines)):
        label = (found["bold"] or found["plain"]).lower()
        said.setdefault(label, one_line(found["value"]).strip("` "))
    return said


def _completed(
    record: TrackRecord, said: Mapping[str, str], title_parts: Mapping[str, str]
) -> TrackRecord:
    """Complete a record from the message: its lines, then its front matter, then its subject."""
    known = {"trigger": record.trigger, "track": record.track_id}
    known = {key: value for key, value in known.items() if value != UNKNOWN}
    about = {**title_parts, **known, **{key: value for key, value in said.items() if value}}
    branch, commit = _read_git(said.get("git", ""))
    empty = not said and not any(record.sections.values())
    return replace(
        record,
        trigger=about.get("trigger", UNKNOWN),
        track_id=about.get("track", UNKNOWN),
        bead_id=said.get("bead") or record.bead_id,
        git_branch=branch or record.git_branch,
        git_commit=commit or record.git_commit,
        author="agent" if record.author == UNKNOWN else record.author,
        sections={"Context": [title_parts["brief"]]}
        if empty and title_parts.get("brief")
        else record.sections,
        warning=ONLY_SUBJECT if empty else "" if record.timestamp else NO_TIME,
    )


def _read_git(said: str) -> tuple[str, str]:
    """Read `branch@commit`; a branch may hold an @ itself."""
    branch, at, commit = (part.strip(" `") for part in said.rpartition("@"))
    if at or not _COMMIT.fullmatch(commit):
        return (branch, commit) if at else (commit, "")
    return "", commit
