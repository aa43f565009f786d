"""A track record: one markdown file in the form of the template. Pure."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from handoff.common.triggers import EPIC_TRIGGERS, TRIGGERS
from handoffd.runtime import clock
from handoffd.session.text import PATH_MAX, keep
from handoffd.tracks import front_matter
from handoffd.tracks.front_matter import one_line
from handoffd.tracks.markdown import lines_of, mark_after, marked, stripped

GENERAL = "general"
UNKNOWN = "unknown"
SECTIONS = ("Context", "Changes", "Learnings", "Next Steps")
MALFORMED = "Malformed frontmatter in handoff. Using filename metadata."
MISSING = "No frontmatter in handoff. Using filename metadata."
NONE = "- (none)"
STEP_MAX = 300

_SLUG_MAX, _EPIC_MAX, _TRIGGER_MAX = 80, 60, 20
_FILES_MAX = 200
_STEPS_MAX = 100
# A writer without front matter puts its values in bold within these first lines.
_HEAD_LINES = 60
_YEAR_10000 = 253402300800
_OURS = (
    "timestamp",
    "trigger",
    "track_id",
    "bead_id",
    "git_commit",
    "git_branch",
    "author",
    "validation_snapshot",
)
_DATED = re.compile(r"_\d{8}\Z")
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_TIME = re.compile(r"(\d\d)-(\d\d)(?:-(\d\d)(?:-(\d{3}))?)?")
_TRIGGER = re.compile(rf"({'|'.join(TRIGGERS)})(?:-\d+)?")
_HEADING = re.compile(r"##[ \t]+(?P<title>\S.*)")
# A text line that looks like a heading gets a backslash, in addition to any it has already.
_HEADING_LIKE = re.compile(r"\\*#{1,2}(?=\s|\Z)")
_ESCAPED = re.compile(r"\\+#{1,2}(?=\s|\Z)")
_TITLE = re.compile(r"#\s.*|#")
_BOLD = re.compile(r"\s*(?:[-*+]\s+)?\*\*(?P<label>[A-Za-z ]{2,20})(?::\*\*|\*\*:)\s*(?P<value>.+)")
_NO_BEAD = ("null", "~", "-", "none")
_LABELS = {
    "trigger": "trigger",
    "track": "track_id",
    "track id": "track_id",
    "bead": "bead_id",
    "epic": "bead_id",
    "branch": "git_branch",
    "commit": "git_commit",
    "timestamp": "timestamp",
    "date": "timestamp",
    "author": "author",
}
_ITEM = re.compile(r"\s*(?:[-*+]|\d{1,4}[.)])\s+(?:\[(?P<box>.)\](?:\s+|\Z))?(?P<text>.*)")
_ABOUT = re.compile(r"(?i)[-*+\s]*(?:track|phase|trigger|git|branch|decisions made)\b[\s*]*:")
_IN_BACKTICKS = re.compile(r"`([^`\n]{1,400})`")
_PATH_LIKE = re.compile(r"[^\s()=;,<>|]*(?:/[^\s()=;,<>|]*|\.[A-Za-z]\w{0,9})")


@dataclass(frozen=True, slots=True)
class TrackRecord:
    """The front matter and the sections (heading -> unchanged lines, without blank ends).

    The text before the first heading is under "".
    """

    timestamp: str
    trigger: str
    track_id: str
    bead_id: str = ""
    git_commit: str = UNKNOWN
    git_branch: str = UNKNOWN
    author: str = "agent"
    validation_snapshot: Mapping[str, Any] | None = None
    sections: Mapping[str, Sequence[str]] = field(default_factory=dict)
    # Front matter that is not ours.
    others: Mapping[str, Any] = field(default_factory=dict)
    # Why values were guessed from the file name; shown to the reader.
    warning: str = ""


class RecordName(NamedTuple):
    """The parts of a file's name; `slug` is the track (and the epic) as written there."""

    timestamp: str
    slug: str
    trigger: str


# Names


def file_name(record: TrackRecord, taken: Collection[str]) -> str:
    """Return `YYYY-MM-DD_HH-MM-SS-mmm_<track>[_<epic>]_<trigger>.md`, with -1, -2 if taken."""
    parts = [_stamp(record.timestamp), _safe(_DATED.sub("", record.track_id), _SLUG_MAX)]
    if record.bead_id and record.trigger in EPIC_TRIGGERS:
        parts.append(_safe(record.bead_id, _EPIC_MAX))
    stem = "_".join([*parts, _safe(record.trigger, _TRIGGER_MAX)])
    # Some file systems ignore case in names.
    known = {name.casefold() for name in taken}
    names = (f"{stem}-{number}.md" if number else f"{stem}.md" for number in range(len(known) + 1))
    return next(name for name in names if name.casefold() not in known)


def _stamp(timestamp: str) -> str:
    moment = utc(timestamp) or clock.iso_milliseconds(0)
    return moment[:-1].replace("T", "_").replace(":", "-").replace(".", "-")


def _safe(text: str, most: int) -> str:
    return _UNSAFE.sub("-", text)[:most].lstrip(".") or UNKNOWN


def utc(timestamp: str) -> str:
    """Return a time as `2025-12-29T10:00:00.123Z`, or an empty text if it is invalid."""
    seconds = clock.parse(timestamp.strip())
    return clock.iso_milliseconds(seconds) if 0 < seconds < _YEAR_10000 else ""


def read_name(name: str) -> RecordName | None:
    """Parse a name from both ends. Return None if it is not a record's name.

    A name with a time but without a known trigger is another writer's; its trigger is empty.
    """
    date, time, rest = [*name.removesuffix(".md").split("_", 2), "", ""][:3]
    clocked = _TIME.fullmatch(time)
    if not name.endswith(".md") or not clocked or not _DATE.fullmatch(date):
        return None
    hour, minute, second, millisecond = clocked.groups()
    moment = utc(f"{date}T{hour}:{minute}:{second or '00'}.{millisecond or '000'}Z")
    slug, _, last = rest.rpartition("_")
    found = _TRIGGER.fullmatch(last)
    if not moment:
        return None
    return RecordName(moment, slug, found[1]) if found else RecordName(moment, rest, "")


# Writing


def render(record: TrackRecord) -> str:
    """Return a record in the form of the template; an empty section says so."""
    track, trigger = one_line(record.track_id), one_line(record.trigger)
    lines = ["---", *front_matter.render(_front_matter(record)), "---", ""]
    lines += [f"# Handoff: {track} | {trigger}"]
    preamble = _body(record.sections.get("", ()))
    lines += ["", *preamble] if preamble else []
    for title in dict.fromkeys([*SECTIONS, *filter(one_line, record.sections)]):
        body = _body(record.sections.get(title, ())) or [NONE]
        lines += ["", f"## {one_line(title)}", "", *body]
    return "\n".join(lines) + "\n"


def _front_matter(record: TrackRecord) -> dict[str, Any]:
    front: dict[str, Any] = {
        "timestamp": record.timestamp,
        "trigger": record.trigger,
        "track_id": record.track_id,
    }
    if record.bead_id and record.trigger in EPIC_TRIGGERS:
        front["bead_id"] = record.bead_id
    front["git_commit"] = record.git_commit or UNKNOWN
    front["git_branch"] = record.git_branch or UNKNOWN
    front["author"] = record.author or UNKNOWN
    if record.validation_snapshot:
        front["validation_snapshot"] = record.validation_snapshot
    return front | {key: value for key, value in record.others.items() if key not in _OURS}


def _body(lines: Iterable[str]) -> list[str]:
    """Return lines that stay in their section: headings are escaped, an open fence is closed."""
    body: list[str] = []
    mark = ""
    for line in stripped(lines_of("\n".join(lines))):
        before, mark = mark, mark_after(line, mark)
        is_text = not before and not mark
        body.append(f"\\{line}" if is_text and _HEADING_LIKE.match(line) else line)
    return [*body, mark] if mark else body


# Reading


def parse(text: str, name: str) -> TrackRecord:
    """Parse a record by any writer. Infer values that the front matter lacks from the name.

    A name with directories gives the track, too.
    """
    data, body, warning = _split(lines_of(text))
    sections = _sections(body)
    written = {key: one_line(value) for key, value in data.items() if isinstance(value, str)}
    # Valid front matter is trusted: bold lines below it are somebody's text.
    in_bold = {} if data else _bold_values(body)
    said = in_bold | {key: value for key, value in written.items() if value}
    *directories, last = name.split("/")
    named = read_name(last) or RecordName("", "", "")
    tracks = [part for part in directories if part != "archive"] or [named.slug]
    # A date in bold is less precise than the name.
    times = (written.get("timestamp", ""), named.timestamp, in_bold.get("timestamp", ""))
    validation = data.get("validation_snapshot")
    return TrackRecord(
        timestamp=next(filter(utc, times), ""),
        trigger=said.get("trigger") or named.trigger or UNKNOWN,
        track_id=said.get("track_id") or one_line(tracks[-1]) or UNKNOWN,
        bead_id=said.get("bead_id", "") if said.get("bead_id") not in _NO_BEAD else "",
        git_commit=said.get("git_commit", UNKNOWN),
        git_branch=said.get("git_branch", UNKNOWN),
        author=said.get("author", UNKNOWN),
        validation_snapshot=validation if isinstance(validation, dict) and validation else None,
        sections=sections,
        others={key: value for key, value in data.items() if key not in _OURS},
        warning=warning,
    )


def _split(lines: list[str]) -> tuple[dict[str, Any], list[str], str]:
    """Return the front matter, the lines after it, and a warning if it is missing or invalid."""
    start = next((number for number, line in enumerate(lines) if line.strip()), 0)
    if lines[start].rstrip() != "---":
        return {}, lines, MISSING
    ends = (n for n, line in enumerate(lines) if n > start and line.rstrip() in ("---", "..."))
    end = next(ends, None)
    if end is None:
        return {}, lines[start + 1 :], MALFORMED
    try:
        return front_matter.read("\n".join(lines[start + 1 : end])), lines[end + 1 :], ""
    except front_matter.YamlError:
        return {}, lines[end + 1 :], MALFORMED


def _sections(body: list[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    title, started = "", False
    for line, mark in marked(body):
        heading = None if mark else _HEADING.fullmatch(line)
        if heading:
            title = _canonical(one_line(heading["title"]))
            found.setdefault(title, [])
        elif started or not _TITLE.fullmatch(line):
            plain = line if mark or not _ESCAPED.match(line) else line[1:]
            found.setdefault(title, []).append(plain)
        started = started or bool(line.strip())
    kept = {name: stripped(lines) for name, lines in found.items()}
    return {name: [] if lines == [NONE] else lines for name, lines in kept.items() if name or lines}


def _canonical(title: str) -> str:
    return next((name for name in SECTIONS if name.casefold() == title.casefold()), title)


def _bold_values(body: list[str]) -> dict[str, str]:
    """Return the values in bold at the beginning: `**Trigger:** epic-end`."""
    said: dict[str, str] = {}
    for line, mark in marked(body[:_HEAD_LINES]):
        found = None if mark else _BOLD.fullmatch(line)
        label = _LABELS.get(found["label"].lower()) if found else None
        if found and label:
            said.setdefault(label, one_line(found["value"].strip("` ")))
    return said


# Extracts


def summary(record: TrackRecord, most: int = 40) -> str:
    """Return the first meaningful line of Context."""
    titles = dict.fromkeys(["Context", "Summary", *record.sections])
    lines = [line for title in titles for line in _text_lines(record, title)]
    said = [text for line in lines if not _ABOUT.match(line) and (text := _item(line))]
    return keep((said or [text for line in lines if (text := _item(line))] or [""])[0], most)


def next_steps(record: TrackRecord) -> list[str]:
    """Return the texts of Next Steps that are not ticked, without number and box."""
    title = next((t for t in ("Next Steps", *record.sections) if _is_next(record, t)), "")
    lines = list(_text_lines(record, title)) if title else []
    items = [found for line in lines if (found := _ITEM.fullmatch(line))]
    open_ones = [found["text"] for found in items if (found["box"] or " ") not in "xX-"]
    texts = (open_ones if items else lines)[:_STEPS_MAX]
    return [text for line in texts if (text := keep(line, STEP_MAX)) and text != NONE[2:]]


def _is_next(record: TrackRecord, title: str) -> bool:
    return title.casefold().startswith("next") and bool(record.sections.get(title))


def files_named(record: TrackRecord) -> list[str]:
    """Return the paths in backticks in Changes, or in a section called similarly, without lines."""
    found: dict[str, None] = {}
    titles = [title for title in record.sections if "changes" in title.casefold()]
    for line in (line for title in titles for line in _text_lines(record, title)):
        item = _ITEM.fullmatch(line)
        leading = item["text"] if item else line
        for quoted in _IN_BACKTICKS.finditer(leading):
            path = quoted[1].split(":", 1)[0].strip()
            # The path at the beginning of an item counts even without a dot: `Makefile`.
            if (quoted.start() == 0 or _PATH_LIKE.fullmatch(path)) and "://" not in quoted[1]:
                found[one_line(path, PATH_MAX)] = None
    return list(filter(None, found))[:_FILES_MAX]


def _text_lines(record: TrackRecord, title: str) -> Iterator[str]:
    """Yield the lines of a section that are neither code nor headings."""
    for line, mark in marked(record.sections.get(title, ())):
        if not mark and line.strip() and not line.startswith("#"):
            yield line


def _item(line: str) -> str:
    found = _ITEM.fullmatch(line)
    text = (found["text"] if found else line).replace("**", "").strip()
    return "" if text == NONE[2:] else text
