"""Writes a session's handoff: by the daemon, by its author (`close`), by a reviewer (`escalate`).

The authors of lines are distinguished by comparing the file with our last write. The words of a
person or of another program are never overwritten, and never shadowed unless real work followed.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from handoff.common.errors import HandoffError
from handoffd.contract import handoff_directory
from handoffd.contract.contract_format import (
    PURPOSE_MAX,
    REASON_MAX,
    SECTIONS,
    Contract,
    ForeignLines,
    bullets,
    complete,
    escalation_line,
    escalation_reasons,
    foreign_lines,
    is_foreign,
    our_part,
    parse,
    persons_words,
    render,
    without_escalations,
)
from handoffd.contract.handoff_directory import Handoff, HandoffScope
from handoffd.runtime import clock
from handoffd.session.text import keep, shorten
from handoffd.store.core import StoredContract

_NEXT_TAKEN_OVER = 3


@dataclass(frozen=True, slots=True)
class HandoffAuthor:
    """The session of a handoff: its id and directory, when it began, last spoke and last worked."""

    session_id: str
    cwd: str
    first_time: str = ""
    last_time: str = ""
    worked_time: str = ""


@dataclass(frozen=True, slots=True)
class HandoffPlan:
    """The path of a handoff to be written, and our part of it.

    The plan is stored before it is carried out: if we are killed in between, we still know our own
    lines.
    """

    path: str
    ours: Contract
    # A person's words to be added.
    given: ForeignLines | None = None

    @property
    def text(self) -> str:
        return render(complete(self.ours, ForeignLines()))


@dataclass(frozen=True, slots=True)
class WrittenHandoff:
    """A handoff as it is on disk now, our part of it, and the time of a person's last change."""

    handoff: Handoff
    written: str
    persons_time: str


# Composes the contract of a session: of all its work (""), or of the work after a time.
ComposeSince = Callable[[str], Contract]


def plan(
    base: str, author: HandoffAuthor, compose: ComposeSince, previous: StoredContract | None
) -> HandoffPlan | None:
    """Return the plan for a session's handoff, or None if the present file must stay."""
    directory = handoff_directory.directory_of(base, author.cwd)
    path = _own_path(directory, author, previous)
    if path is None:
        return None
    others = _newest_by_others(directory, author, path)
    if others is None:
        return HandoffPlan(path or _new_path(directory, author), compose(""))
    if not _worked_since(author, clock.iso_milliseconds(others.seconds)):
        return None
    return HandoffPlan(path or _new_path(directory, author), based_on(compose, others))


def _own_path(directory: str, author: HandoffAuthor, previous: StoredContract | None) -> str | None:
    """Return the file that we wrote before: "" if there is none, None if it must not be written."""
    if previous is None or os.path.dirname(previous.path) != directory:
        return ""
    known = handoff_directory.read(previous.path)
    if known is not None:
        return "" if _is_foreign(known, previous) else previous.path
    # A person removed it, or we were killed before we wrote it.
    again = not previous.stamp or _worked_since(author, previous.session_time)
    return previous.path if again else None


def _newest_by_others(directory: str, author: HandoffAuthor, own_path: str) -> Handoff | None:
    """Return the newest handoff that somebody else wrote for a session.

    A handoff that names no session counts, if it was written in the session's lifetime.
    """
    for changed, path in sorted(handoff_directory.times_and_paths(directory), reverse=True):
        if clock.iso_milliseconds(changed / 1e9) < author.first_time:
            return None
        found = handoff_directory.read(path) if path != own_path else None
        named = found.contract.session_id if found else None
        if named == author.session_id or (named == "" and author.first_time):
            return found
    return None


def _new_path(directory: str, author: HandoffAuthor) -> str:
    name = handoff_directory.file_name(author.session_id, _names(directory), _stamped_name())
    return f"{directory}/{name}"


def _our_versions(previous: StoredContract | None, path: str) -> tuple[Contract, Contract]:
    """Return our last write into a file, and the write that we intended next."""
    if previous is None or previous.path != path:
        return Contract(), Contract()
    return parse(previous.written or previous.intended), parse(previous.intended)


def _is_foreign(found: Handoff, previous: StoredContract | None) -> bool:
    if previous is not None and previous.path == found.path and previous.stamp == found.stamp:
        return False
    return all(is_foreign(found.contract, ours) for ours in _our_versions(previous, found.path))


def write(
    base: str, author: HandoffAuthor, planned: HandoffPlan, previous: StoredContract | None
) -> WrittenHandoff | None:
    """Write the daemon's handoff of a session, and keep a person's changes of the file."""
    persons_time = previous.persons_time if previous else ""
    given = ForeignLines()
    new = ""

    def compute(found: Handoff | None) -> str | None:
        nonlocal persons_time, given, new
        new = planned.text
        if found is None:
            return new
        if _is_foreign(found, previous):
            return None  # another writer was quicker: the next plan finds the file
        given = foreign_lines(found.contract, *_our_versions(previous, found.path))
        if given and previous and found.stamp != previous.stamp:
            persons_time = clock.iso_milliseconds(found.seconds)
        if given and not _worked_since(author, persons_time):
            return None
        if given:
            said = replace(planned.ours, based_on=f"a person's words here, {persons_time}")
            new = render(complete(said, given))
        return new

    directory, name = os.path.split(planned.path)
    done = handoff_directory.change(directory, name, compute, mtime_seconds=_work_seconds(author))
    if done is None or done.text != new:
        return None
    handoff_directory.link_v1(base, author.cwd)
    return WrittenHandoff(done, _our_lines(planned, done, given), persons_time)


def _our_lines(planned: HandoffPlan, done: Handoff, given: ForeignLines) -> str:
    return render(our_part(planned.ours, done.contract, given))


def based_on(compose: ComposeSince, found: Handoff) -> Contract:
    """Compose a contract that names another writer's as its basis and takes over its next steps."""
    ours = compose(clock.iso_milliseconds(found.seconds))
    name = os.path.basename(found.path)
    gist = f": {found.contract.gist}" if found.contract.gist else ""
    when = clock.iso(found.seconds)
    sections = {title: list(lines) for title, lines in ours.sections.items()}
    goes_on = keep(f"Went on from {name} ({when}){gist}", REASON_MAX)
    sections["Done"] = [*bullets([goes_on]), *sections.get("Done", [])]
    taken = [
        keep(f"{item} (from {name})", REASON_MAX)
        for item in found.contract.items("Next", _NEXT_TAKEN_OVER)
    ]
    known = sections.get("Next", [])
    sections["Next"] = [*known, *(line for line in bullets(taken) if line not in known)]
    kept = {title: lines for title, lines in sections.items() if lines}
    return replace(ours, based_on=name, sections=kept)


def _worked_since(author: HandoffAuthor, time: str) -> bool:
    return author.worked_time > time


def _work_seconds(author: HandoffAuthor) -> float | None:
    """Return when the session last spoke, for the file's time; never a time in the future."""
    said = clock.parse(author.last_time)
    return min(said, clock.wall()) if said else None


def _names(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError:
        return []


def _stamped_name() -> str:
    """Return a name for a handoff without a session."""
    return clock.iso().replace(":", "")[:15].replace("T", "-")


# The author's own words

# Of a text that becomes one line: read much more than is shown, so that no secret is halved.
_LINE_READ = 4096


def given_words(
    sections: Mapping[str, Sequence[str]], purpose: str, escalations: Sequence[str]
) -> tuple[ForeignLines, int]:
    """Return a person's words, unchanged except for secrets, and the number of secrets."""
    masked = 0
    kept: dict[str, list[str]] = {}
    for name, texts in sections.items():
        for text in texts:
            lines, found = persons_words(text)
            masked += found
            kept.setdefault(_heading(name), []).extend(_as_bullets(lines))
    cleaned = [persons_words(text[:_LINE_READ]) for text in (purpose, *escalations)]
    masked += sum(found for _, found in cleaned)
    one_line = [" ".join(lines) for lines, _ in cleaned]
    reasons = tuple(shorten(reason, REASON_MAX) for reason in one_line[1:])
    named = {name: lines for name, lines in kept.items() if lines}
    return ForeignLines(shorten(one_line[0], PURPOSE_MAX), reasons, named), masked


def _heading(name: str) -> str:
    """Return the usual section that a heading begins with, or else the heading itself, bounded."""
    usual = (title for title in SECTIONS if name.lower().startswith(title.lower()))
    return next(usual, keep(name, PURPOSE_MAX))


def _as_bullets(lines: list[str]) -> list[str]:
    """Return a single line as a bullet; a longer text keeps its own form."""
    if len(lines) == 1 and not lines[0].startswith(("-", "*", "#", ">", "|", "```")):
        return [f"- {lines[0].strip()}"]
    return lines


def plan_close(
    base: str,
    author: HandoffAuthor,
    compose: ComposeSince,
    previous: StoredContract | None,
    given: ForeignLines,
) -> HandoffPlan:
    """Return the plan for an author's handoff: an existing file is completed."""
    directory = handoff_directory.directory_of(base, author.cwd)
    path = _file_to_complete(directory, author, previous)
    others = _newest_by_others(directory, author, path) if author.session_id else None
    after = others and _worked_since(author, clock.iso_milliseconds(others.seconds))
    ours = based_on(compose, others) if others and after else compose("")
    ours = replace(ours, purpose=ours.purpose or _gist(given))
    return HandoffPlan(path or _new_path(directory, author), ours, given)


def _file_to_complete(
    directory: str, author: HandoffAuthor, previous: StoredContract | None
) -> str:
    """Return the path of the session's handoff, by any writer; "" if there is none."""
    if (
        previous is not None
        and os.path.dirname(previous.path) == directory
        and os.path.exists(previous.path)
    ):
        return previous.path
    named = replace(author, first_time="")
    known = _newest_by_others(directory, named, "") if author.session_id else None
    return known.path if known else ""


def _gist(given: ForeignLines) -> str:
    """Return the subject of a handoff that has no goal, from the given words."""
    said = Contract(sections=given.sections).gist or next(iter(given.escalations), "")
    return keep(said, PURPOSE_MAX)


def close(
    base: str, author: HandoffAuthor, planned: HandoffPlan, previous: StoredContract | None
) -> WrittenHandoff:
    """Write or complete an author's handoff: their words first, then our own lines."""
    given = planned.given or ForeignLines()

    def compute(found: Handoff | None) -> str:
        nonlocal given
        said = (
            foreign_lines(found.contract, *_our_versions(previous, found.path))
            if found
            else ForeignLines()
        )
        given = _merged_words(said, planned.given or ForeignLines())
        # An escalation in the file stays: only `handoff review --settle` or a person removes it.
        calling = (*planned.ours.escalations, *(found.contract.escalations if found else ()))
        ours = replace(planned.ours, escalations=tuple(dict.fromkeys(calling)))
        return render(complete(ours, given))

    directory, name = os.path.split(planned.path)
    # A new handoff without a person's words is no newer than the work that it describes.
    wordless = not planned.given and not os.path.exists(planned.path)
    at = _work_seconds(author) if wordless else None
    done = handoff_directory.change(directory, name, compute, mtime_seconds=at)
    if done is None:
        raise HandoffError(f"{planned.path} was not written.", "Try again.")
    handoff_directory.link_v1(base, author.cwd)
    return WrittenHandoff(done, _our_lines(planned, done, given), clock.iso_milliseconds())


def _merged_words(said: ForeignLines, given: ForeignLines) -> ForeignLines:
    """Return new words added to those that a person left before."""
    sections = {name: list(lines) for name, lines in said.sections.items()}
    for name, lines in given.sections.items():
        sections[name] = _with_lines(sections.get(name, []), lines)
    escalations = tuple(dict.fromkeys((*said.escalations, *given.escalations)))
    purpose = given.purpose or said.purpose
    others = {**said.others, **given.others}
    return ForeignLines(purpose, escalations, sections, said.removed, others)


def _with_lines(known: list[str], lines: list[str]) -> list[str]:
    """Return known and new lines; a bullet that is known already is not repeated."""
    new: list[str] = []
    fenced = False
    for line in lines:
        fenced ^= line.lstrip().startswith(("```", "~~~"))
        if fenced or not line.startswith("- ") or line not in known:
            new.append(line)
    return [*known, *new]


# A reviewer


def escalate(base: str, scope: HandoffScope, reason: str) -> tuple[Handoff, bool]:
    """Add an escalation to the newest handoff. Return the handoff and whether it was new."""
    newest = handoff_directory.newest(base, scope)
    if newest is None:
        raise HandoffError("This project has no handoff yet.", "Leave one: handoff close")
    line = escalation_line(reason)
    new = False

    def compute(found: Handoff | None) -> str | None:
        nonlocal new
        if found is None:
            return None
        new = reason not in escalation_reasons(found.text)
        return _with_line(found.text, line) if new else None

    directory, name = os.path.split(newest.path)
    done = handoff_directory.change(directory, name, compute)
    if done is None:
        raise HandoffError("The handoff was just taken away.", "Try again.")
    return done, new


def settle(base: str, scope: HandoffScope) -> tuple[Handoff, int]:
    """Remove every escalation from the newest handoff. Return the handoff and their number."""
    newest = handoff_directory.newest(base, scope)
    if newest is None:
        raise HandoffError("This project has no handoff yet.", "There is nothing to settle.")
    directory, name = os.path.split(newest.path)
    done = handoff_directory.change(
        directory, name, lambda found: without_escalations(found.text) if found else None
    )
    return done or newest, len(newest.contract.escalations)


def _with_line(text: str, line: str) -> str:
    """Return the text with a line before the first section; every other byte is unchanged."""
    end = "\r\n" if "\r\n" in text else "\n"
    lines = text.split(end)
    at = next((n for n, found in enumerate(lines) if found.startswith("## ")), len(lines))
    while at > 0 and not lines[at - 1].strip():
        at -= 1
    return end.join([*lines[:at], "", line, *(lines[at:] or [""])])
