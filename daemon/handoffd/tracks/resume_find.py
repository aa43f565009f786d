"""Steps 1 to 4 of RESUME: what is meant, where it is, and what it says."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from handoff.common.errors import HandoffError
from handoffd.links.agent_mail import MailError, thread_id
from handoffd.runtime import clock
from handoffd.session.text import clean, keep
from handoffd.tracks import message as letter
from handoffd.tracks.conductor_directory import StoredRecord
from handoffd.tracks.masking import Patterns, masked, masked_values
from handoffd.tracks.record import GENERAL, TrackRecord, summary
from handoffd.tracks.resume_state import ResumeState
from handoffd.tracks.steps import SkippedError, StepAction, StoppedError
from handoffd.tracks.work_context import TITLE_MAX, known_track

_CHOICES_MAX = 20
NAME_MAX = 200


# 1 What is meant


def _parse(run: ResumeState) -> str:
    target, conductor = run.wanted.target, run.ports.conductor
    if target.endswith(".md") or "/" in target:
        return _by_path(run, target)
    if target == GENERAL:
        run.track_id = GENERAL
    elif target and conductor.records(target):
        run.track_id = target  # also of a track that was finished
    elif target:
        run.track_id = known_track(run.ports, target).id
    if run.track_id:
        run.kept = conductor.records(run.track_id)
        return f"track {run.track_id}"
    return _discover(run)


def _by_path(run: ResumeState, target: str) -> str:
    """Take a file of this project's records, wherever it is named from."""
    named = [kept for kept in run.ports.conductor.records() if _is_meant(run, kept, target)]
    if not named:
        raise HandoffError(
            f"{target} is no record of this project.",
            "Records are in conductor/handoffs/<track>/; `handoff resume` finds the newest.",
        )
    run.kept, run.track_id = named[:1], named[0].track_id
    return named[0].path


def _is_meant(run: ResumeState, kept: StoredRecord, target: str) -> bool:
    absolute = f"{run.ports.root}/{kept.path}"
    return target in (kept.path, absolute) or absolute.endswith(f"/{target.removeprefix('./')}")


def _discover(run: ResumeState) -> str:
    """Look for what was left last; of several tracks somebody must choose."""
    newest: dict[str, StoredRecord] = {}
    for kept in run.ports.conductor.records():
        if not kept.archived:
            newest.setdefault(kept.track_id, kept)
    if not newest:
        return "nothing named, no record on disk"
    if len(newest) == 1 and run.settings.auto_select_single:
        run.track_id = next(iter(newest))
        run.kept = run.ports.conductor.records(run.track_id)
        return f"Auto-resuming from {run.track_id}..."
    run.choice = _choice(run, list(newest.values())[:_CHOICES_MAX])
    raise StoppedError(f"a choice is needed: {', '.join(newest)}")


def _choice(run: ResumeState, newest: Sequence[StoredRecord]) -> dict[str, Any]:
    options = []
    for kept in newest:
        found = run.ports.conductor.read(kept.path)
        options.append(
            {
                "track": kept.track_id,
                "path": kept.path,
                "timestamp": kept.timestamp,
                "age_seconds": round(clock.wall() - clock.parse(kept.timestamp)),
                "trigger": keep(found.trigger, NAME_MAX) if found else "",
                "summary": masked(keep(summary(found), TITLE_MAX), run.patterns) if found else "",
            }
        )
    return {"question": "Which track?", "options": options}


# 2 to 4 Where it comes from


def _mail(run: ResumeState) -> str:
    mail = run.ports.links.mail
    if not mail.url:
        raise SkippedError("no mail server is configured")
    if run.wanted.target and run.wanted.target.endswith(".md"):
        raise SkippedError("a file was named")
    try:
        if run.track_id:
            messages = mail.thread(run.ports.root, thread_id(run.track_id))
        else:
            messages = mail.handoffs(run.ports.root)
    except MailError as reason:
        raise SkippedError(f"Agent Mail unavailable - files are used: {reason}") from None
    if not messages:
        raise SkippedError("no handoff in the mail")
    run.message = messages[0]
    return f"{len(messages)} found, the newest of {run.message.created}"


def _files(run: ResumeState) -> str:
    if not run.kept:
        if run.message is None:
            raise StoppedError("There is no record; make one: handoff create")
        raise SkippedError("no record on disk")
    count = len(run.kept)
    return f"{run.kept[0].path}, the newest of {count}" if count > 1 else run.kept[0].path


def _load(run: ResumeState) -> str:
    """Take the mail if it is at least as new as the newest file, else the file."""
    newest = run.kept[0] if run.kept else None
    message = run.message
    # A mail of which only the subject is to be had says less than a file.
    if message and newest is not None and not message.body:
        message = None
    if message and (newest is None or message.created >= newest.timestamp):
        run.record = letter.read(message.subject, message.body, message.created)
        run.source = "mail" if run.record else ""
    if run.record is None and newest is not None:
        run.record, run.source = run.ports.conductor.read(newest.path), newest.path
    if run.record is None:
        raise HandoffError("What was found cannot be read.", "Name a file: handoff resume PATH")
    run.record = _cleaned(run.record, run.patterns)
    run.track_id = run.track_id or run.record.track_id
    warning = f"; warning: {run.record.warning}" if run.record.warning else ""
    return f"from {run.source}{warning}"


def _cleaned(record: TrackRecord, patterns: Patterns) -> TrackRecord:
    """Make a record fit to be shown: whoever wrote it, and wherever it comes from."""

    def line(text: str) -> str:
        return masked(clean(text), patterns)

    return replace(
        record,
        trigger=keep(record.trigger, NAME_MAX),
        track_id=keep(record.track_id, NAME_MAX),
        bead_id=keep(record.bead_id, NAME_MAX),
        git_commit=keep(record.git_commit, NAME_MAX),
        git_branch=keep(line(record.git_branch), NAME_MAX),
        author=keep(record.author, NAME_MAX),
        validation_snapshot=masked_values(record.validation_snapshot, patterns),
        sections={line(name): [*map(line, lines)] for name, lines in record.sections.items()},
        others={},
    )


FIND: tuple[StepAction[ResumeState], ...] = (
    StepAction("1", "input", _parse, needed=True),
    StepAction("2", "Agent Mail", _mail),
    StepAction("3", "files", _files, needed=True),
    StepAction("4", "load", _load, needed=True),
)
