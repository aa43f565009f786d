"""Leaving a handoff: the daemon's own, a worker's by `close`, a reviewer's call for a person.

Whose line is whose is told by comparing the file with what we wrote last. What a person or
another program wrote is never overwritten, and never shadowed unless real work followed it.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from handoff.errors import HandoffError
from handoffd import clock
from handoffd.handoffs import shelf
from handoffd.handoffs.contract import (
    PURPOSE_MAX,
    REASON_MAX,
    Contract,
    Theirs,
    bullets,
    call,
    calls,
    complete,
    is_foreign,
    parse,
    persons_words,
    render,
    theirs,
)
from handoffd.handoffs.shelf import Handoff, Place
from handoffd.session.text import shorten

_NEXT_TAKEN_OVER = 3


class Left(Protocol):
    """The handoff that a session left before (see store.core.Left)."""

    @property
    def path(self) -> str: ...
    @property
    def written(self) -> str: ...
    @property
    def stamp(self) -> str: ...
    @property
    def session_time(self) -> str: ...
    @property
    def persons_time(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Worker:
    """Whose handoff it is: the session, where it worked, when it last spoke and last worked."""

    session_id: str
    cwd: str
    last_time: str = ""
    worked_time: str = ""


@dataclass(frozen=True, slots=True)
class Leaving:
    """A handoff as it is on disk now, our part of it, and when a person had a hand in it."""

    handoff: Handoff
    written: str
    persons_time: str


class _Foreign(Exception):  # noqa: N818  an observation, not a failure
    """Somebody else wrote the file anew."""


# What is known of a session: all of it, or only what came after a time.
Tell = Callable[[str], Contract]


def leave(base: str, worker: Worker, tell: Tell, left: Left | None) -> Leaving | None:
    """Write what the daemon knows; None where what is there stands."""
    directory = shelf.directory_of(base, worker.cwd)
    if left is not None and os.path.dirname(left.path) == directory:
        try:
            return _update(worker, tell(""), left)
        except _Foreign:
            pass
    found = _of_session(directory, worker.session_id)
    if found is not None:
        written = clock.iso_milliseconds(found.seconds)
        if not _worked_since(worker, written):
            return None
        ours = based_on(tell(written), found)
    else:
        ours = tell("")
    name = shelf.file_name(worker.session_id, _names(directory), _stamped_name())
    text = render(complete(ours, Theirs()))
    done = shelf.put(
        directory,
        name,
        lambda before: text if before is None else None,
        mtime_seconds=_work_seconds(worker),
    )
    if done is None or done.text != text:
        return None  # somebody was quicker: the next time it is found
    shelf.link_v1(base, worker.cwd)
    return Leaving(done, text, "")


def _update(worker: Worker, ours: Contract, left: Left) -> Leaving | None:
    """Bring our own handoff up to date, with whatever a person changed in it."""
    directory, name = os.path.split(left.path)
    persons_time = left.persons_time
    written = render(complete(ours, Theirs()))
    before_ours = parse(left.written)

    def compute(found: Handoff | None) -> str | None:
        nonlocal persons_time
        if found is None:  # a person took it away
            return written if _worked_since(worker, left.session_time) else None
        if found.stamp != left.stamp and is_foreign(found.contract, before_ours):
            raise _Foreign
        given = theirs(found.contract, before_ours)
        if found.stamp != left.stamp:
            persons_time = clock.iso_milliseconds(found.seconds)
        if not given:
            return written
        if not _worked_since(worker, persons_time):
            return None
        return render(complete(replace(ours, based_on=f"what was said here {persons_time}"), given))

    done = shelf.put(directory, name, compute, mtime_seconds=_work_seconds(worker))
    return Leaving(done, written, persons_time) if done else None


def based_on(ours: Contract, found: Handoff) -> Contract:
    """Go on from somebody else's handoff: say so, and take over what it said comes next."""
    name = os.path.basename(found.path)
    gist = f": {found.contract.gist}" if found.contract.gist else ""
    when = clock.iso(found.seconds)
    sections = {name: list(lines) for name, lines in ours.sections.items()}
    goes_on = shorten(f"Went on from {name} ({when}){gist}", REASON_MAX)
    sections["Done"] = [*bullets([goes_on]), *sections.get("Done", [])]
    taken = [
        shorten(f"{item} (from {name})", REASON_MAX)
        for item in found.contract.items("Next", _NEXT_TAKEN_OVER)
    ]
    known = sections.get("Next", [])
    sections["Next"] = [*known, *(line for line in bullets(taken) if line not in known)]
    sections = {name: lines for name, lines in sections.items() if lines}
    return replace(ours, based_on=name, sections=sections)


def _worked_since(worker: Worker, time: str) -> bool:
    return worker.worked_time > time


def _work_seconds(worker: Worker) -> float | None:
    """Return when the session last spoke, for the file's time; never one that is to come."""
    said = clock.parse(worker.last_time)
    return min(said, clock.wall()) if said else None


def _of_session(directory: str, session_id: str) -> Handoff | None:
    """Return the newest handoff that names a session as its own."""
    if not session_id:
        return None
    for _, path in sorted(shelf.in_directory(directory), reverse=True)[: shelf.LOOKED_AT_MAX]:
        found = shelf.read(path)
        if found is not None and found.contract.session_id == session_id:
            return found
    return None


def _names(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError:
        return []


def _stamped_name() -> str:
    """Return a name for the handoff of nobody in particular."""
    return clock.iso().replace(":", "")[:15].replace("T", "-")


# A worker's own words


def given_words(
    sections: Mapping[str, Sequence[str]], purpose: str, escalations: Sequence[str]
) -> tuple[Theirs, int]:
    """Take a person's words as they are, but for secrets; returns how many of those there were."""
    masked = 0
    kept: dict[str, list[str]] = {}
    for name, texts in sections.items():
        for text in texts:
            lines, found = persons_words(text)
            masked += found
            kept.setdefault(name, []).extend(_as_items(lines))
    one_line = [" ".join(persons_words(text)[0]) for text in (purpose, *escalations)]
    masked += sum(persons_words(text)[1] for text in (purpose, *escalations))
    reasons = tuple(shorten(reason, REASON_MAX) for reason in one_line[1:])
    named = {name: lines for name, lines in kept.items() if lines}
    return Theirs(shorten(one_line[0], PURPOSE_MAX), reasons, named), masked


def _as_items(lines: list[str]) -> list[str]:
    """Make a bullet of one line; more than that is a text with a form of its own."""
    if len(lines) == 1 and not lines[0].startswith(("-", "*", "#", ">", "|", "```")):
        return [f"- {lines[0].strip()}"]
    return lines


def close(base: str, worker: Worker, ours: Contract, left: Left | None, given: Theirs) -> Leaving:
    """Write a worker's handoff, or complete it: their words first, then what we know."""
    directory = shelf.directory_of(base, worker.cwd)
    known = _of_session(directory, worker.session_id)
    if left is not None and os.path.dirname(left.path) == directory and shelf.read(left.path):
        known = shelf.read(left.path)
    name = (
        os.path.basename(known.path)
        if known
        else shelf.file_name(worker.session_id, _names(directory), _stamped_name())
    )
    before_ours = parse(left.written) if left and known and left.path == known.path else Contract()
    written = render(complete(ours, Theirs()))

    def compute(found: Handoff | None) -> str:
        said = theirs(found.contract, before_ours) if found else Theirs()
        return render(complete(ours, _joined(said, given)))

    done = shelf.put(directory, name, compute)
    if done is None:
        raise HandoffError(f"{directory}/{name} was not written.", "Try again.")
    shelf.link_v1(base, worker.cwd)
    return Leaving(done, written, clock.iso_milliseconds())


def _joined(said: Theirs, given: Theirs) -> Theirs:
    """Add new words to those that a person left before."""
    sections = {name: list(lines) for name, lines in said.sections.items()}
    for name, lines in given.sections.items():
        known = sections.setdefault(name, [])
        known += [line for line in lines if line not in known]
    escalations = tuple(dict.fromkeys((*said.escalations, *given.escalations)))
    purpose = given.purpose or said.purpose
    return Theirs(purpose, escalations, sections, said.removed, said.others)


# A reviewer


def escalate(base: str, place: Place, reason: str) -> tuple[Handoff, bool]:
    """Add the call for a person to the newest handoff; tells whether it was new."""
    newest = shelf.newest(base, place)
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
    done = shelf.put(directory, name, compute)
    if done is None:
        raise HandoffError("The handoff was just taken away.", "Try again.")
    return done, new


def _with_call(text: str, line: str) -> str:
    """Put the call before the first section, leaving every other byte as it is."""
    end = "\r\n" if "\r\n" in text else "\n"
    lines = text.split(end)
    at = next((n for n, found in enumerate(lines) if found.startswith("## ")), len(lines))
    while at > 0 and not lines[at - 1].strip():
        at -= 1
    return end.join([*lines[:at], "", line, *(lines[at:] or [""])])
