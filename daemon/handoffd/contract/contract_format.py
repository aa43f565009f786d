"""A session's handoff as markdown: render, parse, and separate our lines from other writers'.

Pure. docs/contract.md is the specification; other programs rely on its stable parts.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from handoff.common.plain_text import uncalled
from handoffd.redaction.redact import redact
from handoffd.session.text import clean, shorten

SIZE_MAX_BYTES = 6 << 10
# Our part may have this size, however long a person's part is.
OURS_MIN_BYTES = 2 << 10
PURPOSE_MAX = 120
REASON_MAX = 300
SECTIONS = ("Done", "Next", "Gotchas", "Risks", "Reflection")
ESCALATION = "HUMAN REVIEW NEEDED"
_CALL = re.compile(r"(?i)human review needed[:*\s]*(?P<reason>.*)")
_HEADER = re.compile(
    r"#\s+Handoff\s*+(?:[—–:-]\s*+)?(?P<date>\d{4}-\d{2}-\d{2})?\s*+(?:\([^)]*\)\s*+)?\Z"
)
_DATA = re.compile(r"(?P<key>[a-z][a-z_]{1,30}):[ \t]*(?P<value>.*)")
_HEADING = re.compile(r"##\s+(?P<title>\S(?:.*\S)?)")
_BELOW = re.compile(r"###\s+(?P<title>\S(?:.*\S)?)")
_FENCE = re.compile(r"[ \t]{0,3}(?:```|~~~)")
_OPENING_QUOTE = re.compile(r'(?:(?<=[\s(\[])|\A)"(?=\S)')
_BULLET = re.compile(r"\A\s*(?:[-*+]\s+(?:\[[ xX]\]\s+)?|\d{1,3}[.)]\s+)")
# The metadata must end within these lines: a consumer reads the first lines only.
_METADATA_LINES = 15
_FALLBACK_ITEMS = 3
_KEYS = ("session_id", "purpose", "cwd", "based_on")


@dataclass(frozen=True, slots=True)
class Contract:
    """One handoff. A section is a list of unchanged lines; text before the first is under ""."""

    date: str = ""
    session_id: str = ""
    purpose: str = ""
    cwd: str = ""
    # The handoff of another writer that this one continues.
    based_on: str = ""
    escalations: tuple[str, ...] = ()
    sections: Mapping[str, list[str]] = field(default_factory=dict)
    # Metadata of other writers.
    others: Mapping[str, str] = field(default_factory=dict)

    def items(self, name: str, most: int = 1000) -> list[str]:
        """Return the lines of a section without bullets; "## Next Steps" is Next, too.

        A heading one level deeper counts as well: some writers keep their sections in zones.
        """
        found: list[str] = []
        for title, lines in self._parts():
            if title.lower().startswith(name.lower()):
                found += [_BULLET.sub("", line, count=1).strip() for line in lines if line.strip()]
        return found[:most]

    def _parts(self) -> Iterator[tuple[str, list[str]]]:
        """Yield the sections, split at deeper headings; each of those begins a part of its own."""
        for title, lines in self.sections.items():
            part: tuple[str, list[str]] = (title, [])
            for line in lines:
                below = _BELOW.match(line)
                if below:
                    yield part
                    part = below["title"], []
                else:
                    part[1].append(line)
            yield part

    @property
    def gist(self) -> str:
        """The purpose, or the first item if the handoff has no purpose."""
        if self.purpose:
            return self.purpose
        said = self.items("Done", 1) or self.fallback
        return shorten(said[0], 60) if said else ""

    @property
    def fallback(self) -> list[str]:
        """The first lines of a handoff that has none of the usual sections."""
        every = [line.strip() for _, lines in self._parts() for line in lines]
        return [_BULLET.sub("", line, count=1) for line in every if line][:_FALLBACK_ITEMS]


def parse(text: str) -> Contract:
    """Parse any markdown as a handoff; missing parts are empty."""
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n")
    date, data, body = _metadata(lines)
    sections: dict[str, list[str]] = {}
    title, fence = "", ""
    for line in body:
        if _FENCE.match(line):
            fence = "" if fence else line.strip()[:3]
        heading = None if fence else _HEADING.match(line)
        if heading:
            title = heading["title"]
            sections.setdefault(title, [])
        elif not _CALL.match(_BULLET.sub("", line, count=1).strip()):
            sections.setdefault(title, []).append(line)
    if fence:  # close it, so that a section added after it is not part of the code
        sections.setdefault(title, []).append(fence)
    return Contract(
        date=date,
        session_id=data.get("session_id", ""),
        purpose=data.get("purpose", ""),
        cwd=data.get("cwd", ""),
        based_on=data.get("based_on", ""),
        others={key: value for key, value in data.items() if key not in _KEYS},
        escalations=escalation_reasons("\n".join(lines)),
        sections={
            name: stripped
            for name, lines in sections.items()
            if (stripped := _stripped(lines)) or name
        },
    )


def _metadata(lines: list[str]) -> tuple[str, dict[str, str], list[str]]:
    """Return the date, the data of the first lines, and the rest.

    An unknown key counts only below a header and in one block with the keys before it; elsewhere
    it is somebody's text.
    """
    first = next((number for number, line in enumerate(lines) if line.strip()), 0)
    header = _HEADER.match(lines[first])
    start = first + 1 if header else first
    data: dict[str, str] = {}
    end = min(len(lines), start + _METADATA_LINES)
    for number in range(start, end):
        line = lines[number].strip()
        found = _DATA.fullmatch(line)
        beside = bool(header) and (not data or lines[number - 1].strip() != "")
        # A repeated key is somebody's text, and is kept as such.
        if found and found["key"] not in data and (beside or found["key"] in _KEYS):
            data[found["key"]] = found["value"].strip()
        elif line:
            end = number
            break
    return (header["date"] or "") if header else "", data, lines[end:]


def escalation_reasons(text: str) -> tuple[str, ...]:
    """Return the reasons of all escalations in a text; one without a reason gives an empty text.

    The search is that of the known consumer: anywhere in a line, in any case.
    """
    found = (_CALL.search(line) for line in text.split("\n"))
    return tuple(dict.fromkeys(match["reason"].strip() for match in found if match))


def without_escalations(text: str) -> str:
    """Remove the lines that are escalations, and break up a mention in any other line."""
    lines = text.split("\n")
    kept = [line for line in lines if not _CALL.match(_BULLET.sub("", line, count=1).strip("* "))]
    return "\n".join(map(uncalled, kept))


def _stripped(lines: list[str]) -> list[str]:
    """Return the lines without the blank ones at both ends."""
    first = next((n for n, line in enumerate(lines) if line.strip()), len(lines))
    last = next((n for n, line in enumerate(reversed(lines)) if line.strip()), 0)
    return lines[first : len(lines) - last]


def render(contract: Contract) -> str:
    """Return a handoff as markdown: the metadata, the escalations, the sections with content."""
    lines = [f"# Handoff — {contract.date}", ""]
    lines += [f"session_id: {contract.session_id}".rstrip()]
    lines += [f"purpose: {typographic(contract.purpose)}".rstrip(), f"cwd: {contract.cwd}".rstrip()]
    if contract.based_on:
        lines.append(f"based_on: {contract.based_on}")
    lines += [f"{key}: {value}" for key, value in contract.others.items()]
    if contract.escalations:
        lines += ["", *map(escalation_line, contract.escalations)]
    names = [name for name in ("", *SECTIONS) if contract.sections.get(name)]
    names += [name for name in contract.sections if name not in names and contract.sections[name]]
    for name in names:
        lines += ["", *([f"## {name}"] if name else []), *contract.sections[name]]
    return "\n".join(lines) + "\n"


def typographic(text: str) -> str:
    """Replace straight quotes by typographic ones.

    The canonical reader of the contract pipes the purpose through xargs, which fails at a single
    apostrophe and takes quotes out.
    """
    return _OPENING_QUOTE.sub("“", text).replace('"', "”").replace("'", "’")


def escalation_line(reason: str) -> str:
    return f"{ESCALATION}: {reason}" if reason else ESCALATION


def written_path(path: str) -> str:
    """Return a path in the form of the `cwd:` line: one line, without secrets."""
    line = path if path.isprintable() else json.dumps(path)[1:-1]
    return uncalled(redact(line)[0])


def bullets(texts: Iterable[str]) -> list[str]:
    """Return our own texts as bullets, in which a mention of the escalation is broken up."""
    return [f"- {uncalled(text)}" for text in texts]


# Our lines and those of other writers


@dataclass(frozen=True, slots=True)
class ForeignLines:
    """The lines that somebody else added to a handoff of ours, and those of ours they removed."""

    purpose: str = ""
    escalations: tuple[str, ...] = ()
    sections: Mapping[str, list[str]] = field(default_factory=dict)
    removed: frozenset[str] = frozenset()
    others: Mapping[str, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        said = self.purpose or self.escalations or self.removed or self.others
        return bool(said or any(self.sections.values()))


def _spoken_lines(contract: Contract) -> set[str]:
    """Return all lines that are not blank: a blank line has no author."""
    return {line for lines in contract.sections.values() for line in lines if line.strip()}


def foreign_lines(
    found: Contract, written: Contract, intended: Contract | None = None
) -> ForeignLines:
    """Return the changes that others made to a handoff since we wrote it.

    If we were killed while we wrote, the intended lines may or may not be in the file. They are
    ours, and a missing one counts as not yet written, not as removed by somebody.
    """
    ours = (written, intended or written)
    own = [_spoken_lines(one) for one in ours]
    our_reasons = [set(one.escalations) for one in ours]
    silenced = set.intersection(*our_reasons) - set(found.escalations)
    added = {
        name: kept
        for name, lines in found.sections.items()
        if (kept := _stripped([line for line in lines if line not in set.union(*own)]))
    }
    called = set.union(*our_reasons)
    purpose = typographic(found.purpose)
    return ForeignLines(
        found.purpose if all(typographic(one.purpose) != purpose for one in ours) else "",
        tuple(reason for reason in found.escalations if reason not in called),
        added,
        frozenset(
            (set.intersection(*own) - _spoken_lines(found)) | set(map(escalation_line, silenced))
        ),
        {key: value for key, value in found.others.items() if ours[0].others.get(key) != value},
    )


def is_foreign(found: Contract, ours: Contract) -> bool:
    """Return True if somebody else wrote the file anew: it holds none of our lines."""
    own, there = _spoken_lines(ours), _spoken_lines(found)
    return bool(there) and not own & there


def complete(ours: Contract, given: ForeignLines) -> Contract:
    """Merge a person's lines into ours. If the result is too long, shorten our part."""
    while True:
        whole = _merged(ours, given)
        longest = max(ours.sections.values(), key=lambda lines: len("".join(lines)), default=[])
        small = len(render(ours).encode()) <= OURS_MIN_BYTES
        if len(render(whole).encode()) <= SIZE_MAX_BYTES or small or not longest:
            return whole
        sections = {
            name: lines[:-1] if lines is longest else lines for name, lines in ours.sections.items()
        }
        ours = replace(ours, sections={name: lines for name, lines in sections.items() if lines})


def _merged(ours: Contract, given: ForeignLines) -> Contract:
    sections: dict[str, list[str]] = {name: list(lines) for name, lines in given.sections.items()}
    for name, lines in ours.sections.items():
        known = sections.setdefault(name, [])
        known += [line for line in lines if line not in given.removed and line not in known]
    calling = [
        reason for reason in ours.escalations if escalation_line(reason) not in given.removed
    ]
    return replace(
        ours,
        purpose=given.purpose or ours.purpose,
        escalations=tuple(dict.fromkeys((*given.escalations, *calling))),
        sections={name: lines for name, lines in sections.items() if lines},
        others={**ours.others, **given.others},
    )


def persons_words(text: str) -> tuple[list[str], int]:
    """Return a person's words as lines for a handoff, and the number of masked secrets.

    The words stay unchanged, except for secrets and control characters.
    """
    masked, kinds = redact(clean(text.replace("\r\n", "\n")))
    lines = [line.rstrip() for line in masked.split("\n")]
    return _stripped(lines), len(kinds)


def our_part(ours: Contract, found: Contract, given: ForeignLines) -> Contract:
    """Return our lines that a file holds, and those that a person removed from it.

    A line that was left out only for want of room may come back. A line that a person wrote as
    well is theirs.
    """
    their_lines = {line for lines in given.sections.values() for line in lines}
    said = (_spoken_lines(found) | given.removed) - their_lines
    sections = {
        name: [line for line in lines if line in said] for name, lines in ours.sections.items()
    }
    return replace(ours, sections={name: lines for name, lines in sections.items() if lines})
