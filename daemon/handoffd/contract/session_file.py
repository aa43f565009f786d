"""Leaving a handoff: the daemon's own, a worker's by `close`, a reviewer's call for a person.

Whose line is whose is told by comparing the file with what we wrote last. What a person or
another program wrote is never overwritten, and never shadowed unless real work followed it.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from handoff.common.errors import HandoffError
from handoffd.contract import handoff_directory
from handoffd.contract.contract_format import (
    PURPOSE_MAX,
    REASON_MAX,
    SECTIONS,
    Contract,
    ForeignLines,
    bullets,
    call,
    calls,
    complete,
    is_foreign,
    parse,
    part_of_ours,
    persons_words,
    render,
    theirs,
    without_calls,
)
from handoffd.contract.handoff_directory import Handoff, HandoffScope
from handoffd.runtime import clock
from handoffd.session.text import keep, shorten

_NEXT_TAKEN_OVER = 3


class PreviousHandoff(Protocol):
    """The handoff that a session left before (see store.core.Left)."""

    @property
    def path(self) -> str: ...
    @property
    def written(self) -> str: ...
    @property
    def intended(self) -> str: ...
    @property
    def stamp(self) -> str: ...
    @property
    def session_time(self) -> str: ...
    @property
    def persons_time(self) -> str: ...


@dataclass(frozen=True, slots=True)
class HandoffAuthor:
    """Whose handoff it is: the session, where it worked, when it began, last spoke and worked."""

    session_id: str
    cwd: str
    first_time: str = ""
    last_time: str = ""
    worked_time: str = ""


@dataclass(frozen=True, slots=True)
class HandoffPlan:
    """Where a handoff is to be written, and our part of it.

    It is remembered before it is carried out: killed in between, we still know our own lines.
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
    """A handoff as it is on disk now, our part of it, and when a person had a hand in it."""

    handoff: Handoff
    written: str
    persons_time: str


# What is known of a session: all of it, or only what came after a time.
Tell = Callable[[str], Contract]


def plan(
    base: str, worker: HandoffAuthor, tell: Tell, left: PreviousHandoff | None
) -> HandoffPlan | None:
    """Decide on the file of a session's handoff; None where what is there stands."""
    directory = handoff_directory.directory_of(base, worker.cwd)
    path = _own_path(directory, worker, left)
    if path is None:
        return None
    standing = _standing(directory, worker, path)
    if standing is None:
        return HandoffPlan(path or _new_path(directory, worker), tell(""))
    if not _worked_since(worker, clock.iso_milliseconds(standing.seconds)):
        return None
    return HandoffPlan(path or _new_path(directory, worker), based_on(tell, standing))


def _own_path(directory: str, worker: HandoffAuthor, left: PreviousHandoff | None) -> str | None:
    """Return the file that we wrote before: nothing if there is none, None if it must not be."""
    if left is None or os.path.dirname(left.path) != directory:
        return ""
    known = handoff_directory.read(left.path)
    if known is not None:
        return "" if _is_foreign(known, left) else left.path
    # A person took it away, or we were killed before we wrote it.
    again = not left.stamp or _worked_since(worker, left.session_time)
    return left.path if again else None


def _standing(directory: str, worker: HandoffAuthor, own_path: str) -> Handoff | None:
    """Return the newest handoff that somebody else wrote for a session.

    One that names no session is taken for this one's, if it was written in its time.
    """
    for changed, path in sorted(handoff_directory.in_directory(directory), reverse=True):
        if clock.iso_milliseconds(changed / 1e9) < worker.first_time:
            return None
        found = handoff_directory.read(path) if path != own_path else None
        named = found.contract.session_id if found else None
        if named == worker.session_id or (named == "" and worker.first_time):
            return found
    return None


def _new_path(directory: str, worker: HandoffAuthor) -> str:
    name = handoff_directory.file_name(worker.session_id, _names(directory), _stamped_name())
    return f"{directory}/{name}"


def _ours(left: PreviousHandoff | None, path: str) -> tuple[Contract, Contract]:
    """Return what we wrote last into a file, and what we were about to write."""
    if left is None or left.path != path:
        return Contract(), Contract()
    return parse(left.written or left.intended), parse(left.intended)


def _is_foreign(found: Handoff, left: PreviousHandoff | None) -> bool:
    if left is not None and left.path == found.path and left.stamp == found.stamp:
        return False
    return all(is_foreign(found.contract, ours) for ours in _ours(left, found.path))


def leave(
    base: str, worker: HandoffAuthor, planned: HandoffPlan, left: PreviousHandoff | None
) -> WrittenHandoff | None:
    """Write what the daemon knows, with whatever a person changed in the file."""
    persons_time = left.persons_time if left else ""
    given = ForeignLines()
    new = ""

    def compute(found: Handoff | None) -> str | None:
        nonlocal persons_time, given, new
        new = planned.text
        if found is None:
            return new
        if _is_foreign(found, left):
            return None  # somebody was quicker: the next time it is found
        given = theirs(found.contract, *_ours(left, found.path))
        if given and left and found.stamp != left.stamp:
            persons_time = clock.iso_milliseconds(found.seconds)
        if given and not _worked_since(worker, persons_time):
            return None
        if given:
            said = replace(planned.ours, based_on=f"a person's words here, {persons_time}")
            new = render(complete(said, given))
        return new

    directory, name = os.path.split(planned.path)
    done = handoff_directory.put(directory, name, compute, mtime_seconds=_work_seconds(worker))
    if done is None or done.text != new:
        return None
    handoff_directory.link_v1(base, worker.cwd)
    return WrittenHandoff(done, _written(planned, done, given), persons_time)


def _written(planned: HandoffPlan, done: Handoff, given: ForeignLines) -> str:
    return render(part_of_ours(planned.ours, done.contract, given))


def based_on(tell: Tell, found: Handoff) -> Contract:
    """Go on from somebody else's handoff: say so, and take over what it said comes next."""
    ours = tell(clock.iso_milliseconds(found.seconds))
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


def _worked_since(worker: HandoffAuthor, time: str) -> bool:
    return worker.worked_time > time


def _work_seconds(worker: HandoffAuthor) -> float | None:
    """Return when the session last spoke, for the file's time; never one that is to come."""
    said = clock.parse(worker.last_time)
    return min(said, clock.wall()) if said else None


def _names(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError:
        return []


def _stamped_name() -> str:
    """Return a name for the handoff of nobody in particular."""
    return clock.iso().replace(":", "")[:15].replace("T", "-")


# A worker's own words

# Of what becomes one line: much more than is shown, so that no half of a secret is.
_LINE_READ = 4096


def given_words(
    sections: Mapping[str, Sequence[str]], purpose: str, escalations: Sequence[str]
) -> tuple[ForeignLines, int]:
    """Take a person's words as they are, but for secrets; returns how many of those there were."""
    masked = 0
    kept: dict[str, list[str]] = {}
    for name, texts in sections.items():
        for text in texts:
            lines, found = persons_words(text)
            masked += found
            kept.setdefault(_heading(name), []).extend(_as_items(lines))
    told = [persons_words(text[:_LINE_READ]) for text in (purpose, *escalations)]
    masked += sum(found for _, found in told)
    one_line = [" ".join(lines) for lines, _ in told]
    reasons = tuple(shorten(reason, REASON_MAX) for reason in one_line[1:])
    named = {name: lines for name, lines in kept.items() if lines}
    return ForeignLines(shorten(one_line[0], PURPOSE_MAX), reasons, named), masked


def _heading(name: str) -> str:
    """Return the usual heading that one begins with, or one's own, made fit."""
    usual = (title for title in SECTIONS if name.lower().startswith(title.lower()))
    return next(usual, keep(name, PURPOSE_MAX))


def _as_items(lines: list[str]) -> list[str]:
    """Make a bullet of one line; more than that is a text with a form of its own."""
    if len(lines) == 1 and not lines[0].startswith(("-", "*", "#", ">", "|", "```")):
        return [f"- {lines[0].strip()}"]
    return lines


def plan_close(
    base: str, worker: HandoffAuthor, tell: Tell, left: PreviousHandoff | None, given: ForeignLines
) -> HandoffPlan:
    """Decide on the file of a worker's handoff: the one that is there is completed."""
    directory = handoff_directory.directory_of(base, worker.cwd)
    path = _file_to_complete(directory, worker, left)
    standing = _standing(directory, worker, path) if worker.session_id else None
    after = standing and _worked_since(worker, clock.iso_milliseconds(standing.seconds))
    ours = based_on(tell, standing) if standing and after else tell("")
    ours = replace(ours, purpose=ours.purpose or _gist(given))
    return HandoffPlan(path or _new_path(directory, worker), ours, given)


def _file_to_complete(directory: str, worker: HandoffAuthor, left: PreviousHandoff | None) -> str:
    """Return the session's handoff, whoever wrote it; nothing if there is none."""
    if left is not None and os.path.dirname(left.path) == directory and os.path.exists(left.path):
        return left.path
    named = replace(worker, first_time="")
    known = _standing(directory, named, "") if worker.session_id else None
    return known.path if known else ""


def _gist(given: ForeignLines) -> str:
    """Return what a handoff is about that has no goal to go by."""
    said = Contract(sections=given.sections).gist or next(iter(given.escalations), "")
    return keep(said, PURPOSE_MAX)


def close(
    base: str, worker: HandoffAuthor, planned: HandoffPlan, left: PreviousHandoff | None
) -> WrittenHandoff:
    """Write a worker's handoff, or complete it: their words first, then what we know."""
    given = planned.given or ForeignLines()

    def compute(found: Handoff | None) -> str:
        nonlocal given
        said = theirs(found.contract, *_ours(left, found.path)) if found else ForeignLines()
        given = _joined(said, planned.given or ForeignLines())
        # A call that is there stays: only who looks after it takes it out.
        calling = (*planned.ours.escalations, *(found.contract.escalations if found else ()))
        ours = replace(planned.ours, escalations=tuple(dict.fromkeys(calling)))
        return render(complete(ours, given))

    directory, name = os.path.split(planned.path)
    # A new one without a word of anybody's own is no newer than the work that it tells of.
    wordless = not planned.given and not os.path.exists(planned.path)
    at = _work_seconds(worker) if wordless else None
    done = handoff_directory.put(directory, name, compute, mtime_seconds=at)
    if done is None:
        raise HandoffError(f"{planned.path} was not written.", "Try again.")
    handoff_directory.link_v1(base, worker.cwd)
    return WrittenHandoff(done, _written(planned, done, given), clock.iso_milliseconds())


def _joined(said: ForeignLines, given: ForeignLines) -> ForeignLines:
    """Add new words to those that a person left before."""
    sections = {name: list(lines) for name, lines in said.sections.items()}
    for name, lines in given.sections.items():
        sections[name] = _with_lines(sections.get(name, []), lines)
    escalations = tuple(dict.fromkeys((*said.escalations, *given.escalations)))
    purpose = given.purpose or said.purpose
    others = {**said.others, **given.others}
    return ForeignLines(purpose, escalations, sections, said.removed, others)


def _with_lines(known: list[str], lines: list[str]) -> list[str]:
    """Add lines: a bullet that is there already once, all else as it stands."""
    new: list[str] = []
    fenced = False
    for line in lines:
        fenced ^= line.lstrip().startswith(("```", "~~~"))
        if fenced or not line.startswith("- ") or line not in known:
            new.append(line)
    return [*known, *new]


# A reviewer


def escalate(base: str, place: HandoffScope, reason: str) -> tuple[Handoff, bool]:
    """Add the call for a person to the newest handoff; tells whether it was new."""
    newest = handoff_directory.newest(base, place)
    if newest is None:
        raise HandoffError("This project has no handoff yet.", "Leave one: handoff close")
    line = call(reason)
    new = False

    def compute(found: Handoff | None) -> str | None:
        nonlocal new
        if found is None:
            return None
        new = reason not in calls(found.text)
        return _with_call(found.text, line) if new else None

    directory, name = os.path.split(newest.path)
    done = handoff_directory.put(directory, name, compute)
    if done is None:
        raise HandoffError("The handoff was just taken away.", "Try again.")
    return done, new


def settle(base: str, place: HandoffScope) -> tuple[Handoff, int]:
    """Take every call for a person out of the newest handoff; tells how many there were."""
    newest = handoff_directory.newest(base, place)
    if newest is None:
        raise HandoffError("This project has no handoff yet.", "There is nothing to settle.")
    directory, name = os.path.split(newest.path)
    done = handoff_directory.put(
        directory, name, lambda found: without_calls(found.text) if found else None
    )
    return done or newest, len(newest.contract.escalations)


def _with_call(text: str, line: str) -> str:
    """Put the call before the first section, leaving every other byte as it is."""
    end = "\r\n" if "\r\n" in text else "\n"
    lines = text.split(end)
    at = next((n for n, found in enumerate(lines) if found.startswith("## ")), len(lines))
    while at > 0 and not lines[at - 1].strip():
        at -= 1
    return end.join([*lines[:at], "", line, *(lines[at:] or [""])])
