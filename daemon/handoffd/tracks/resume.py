"""RESUME: take up a track where it was left, in nine steps; nothing but its status is written."""

import math
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from handoff.common.errors import EXIT_CHOICE_NEEDED, EXIT_FAILED, HandoffError
from handoffd.links.agent_mail import MailError, thread_id
from handoffd.links.beads import BeadsError, Issue
from handoffd.links.git import GitError
from handoffd.links.repository import Head, Since, head, since
from handoffd.redaction.redact import compile_patterns
from handoffd.runtime import clock
from handoffd.session.text import clean, keep
from handoffd.tracks import analysis, metadata
from handoffd.tracks import message as letter
from handoffd.tracks.conductor_directory import StoredRecord
from handoffd.tracks.masking import Patterns, masked, masked_values
from handoffd.tracks.record import (
    GENERAL,
    UNKNOWN,
    TrackRecord,
    files_named,
    next_steps,
    summary,
)
from handoffd.tracks.resume_state import ResumeRequest, ResumeState
from handoffd.tracks.steps import SkippedError, StepAction, StoppedError, Tell, walk
from handoffd.tracks.work_context import EPICS_MAX, TITLE_MAX, WorkContext, known_track, standing

READY_MAX = 10
_CHOICES_MAX = 20
NAME_MAX = 200


def resume(ports: WorkContext, wanted: ResumeRequest, tell: Tell) -> dict[str, Any]:
    """Find what was left, compare it with what is there now, and say what comes next."""
    run = ResumeState(tell, ports=ports, wanted=wanted, settings=ports.conductor.settings())
    run.patterns = compile_patterns(run.settings.secrets_patterns)
    walk(run, (*FIND, *RESUME))
    if wanted.implement and run.record is None and run.track_id:
        # To begin a track nothing need have been left of it, but its epic has to be known.
        with suppress(SkippedError):
            _beads(run)
    return outcome(run)


# 1 Which record


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


# 5 Beads


def _beads(run: ResumeState) -> str:
    ports = run.ports
    named = [run.found.bead_id] if run.record and run.found.bead_id else []
    run.track = None if run.track_id == GENERAL else ports.conductor.track(run.track_id)
    run.standing = standing(ports, run.track)
    epics = list(dict.fromkeys([*named, *run.standing.epics]))
    if not epics:
        raise SkippedError("no epic is named")
    if not ports.beads.exists():
        raise SkippedError("there is no .beads here")
    try:
        run.beads_home = ports.beads.home()
        run.epic = _told(_epic_to_go_on_with(run, epics), run.patterns)
        ready = ports.beads.ready(run.epic.id)[:READY_MAX]
        run.ready = [_told(issue, run.patterns) for issue in ready]
    except BeadsError as reason:
        raise SkippedError(f"no answer: {reason}") from None
    return f"{run.epic.id} is {run.epic.status}, {len(run.ready)} ready"


def _told(issue: Issue, patterns: Patterns) -> Issue:
    """Return what is shown of an issue: its notes and all else are Beads' own."""
    return Issue(issue.id, masked(keep(issue.title, TITLE_MAX), patterns), issue.status, issue.type)


def _epic_to_go_on_with(run: ResumeState, epics: Sequence[str]) -> Issue:
    """Return the first epic that is not closed, or else the first."""
    found = []
    for epic in epics[:EPICS_MAX]:
        found.append(run.ports.beads.show(epic))
        if found[-1].status != "closed":
            return found[-1]
    return found[0]


# 6 Drift


def _drift(run: ResumeState) -> str:
    if not run.settings.show_drift:
        raise SkippedError("switched off in conductor/workflow.md")
    record = run.found
    try:
        here = head(run.ports.root)
        moved = _since(run, record.git_commit)
    except GitError as reason:
        here, moved = Head(), Since(None, ())
        git_problem = str(reason)
    else:
        git_problem = ""
    run.drift = analysis.drift(
        record,
        clock.wall() - clock.parse(record.timestamp),
        run.settings.stale_days,
        analysis.CurrentTree(
            keep(here.branch, 200),  # as it stands in the record
            here.detached,
            here.commit,
            moved.commits,
            _changed(run, {*moved.changed, *here.uncommitted}),
            frozenset(path for path in files_named(record) if not _exists(run, path)),
            _red_tests(run),
            git_problem,
        ),
    )
    return run.drift.brief


def _changed(run: ResumeState, different: set[str]) -> frozenset[str]:
    """Return the named files that differ from the commit and were written after the record.

    What was uncommitted already when the record was made differs, too, and has not moved.
    """
    made = clock.parse(run.found.timestamp)
    named = (path for path in files_named(run.found) if path in different)
    return frozenset(path for path in named if _written(run, path) > made)


def _written(run: ResumeState, path: str) -> float:
    try:
        return os.lstat(os.path.join(run.ports.root, path)).st_mtime
    except OSError:
        return math.inf


def _since(run: ResumeState, commit: str) -> Since:
    """Ask what came since the recorded commit; it may be unknown here (a rebase, another clone)."""
    if commit == UNKNOWN:
        return Since(None, ())
    try:
        return since(run.ports.root, commit)
    except GitError:
        return Since(None, ())


def _exists(run: ResumeState, path: str) -> bool:
    """Look for a file of the project; what a record says of other places is not looked at."""
    whole = os.path.normpath(os.path.join(run.ports.root, path))
    return not whole.startswith(f"{run.ports.root}/") or os.path.lexists(whole)


def _red_tests(run: ResumeState) -> str:
    """Return the tests that were last seen red, by the session or by the record itself."""
    state = run.ports.state
    red = [check for check in state.checks if not check.green] if state else []
    if red:
        return max(red, key=lambda check: check.at).summary
    lines = [line for lines in run.found.sections.values() for line in lines]
    return next((line.lstrip("- ") for line in lines if "Tests red:" in line), "")


# 7 to 9


def _present(run: ResumeState) -> str:
    work = analysis.TrackProgress(run.standing.progress, run.epic, run.ready)
    run.text = analysis.present(run.found, run.source, work, run.drift)
    if run.wanted.framed:
        run.text = analysis.framed(run.text, run.ports.root)
    return f"{run.standing.progress.percent}% done"


def _todos(run: ResumeState) -> str:
    titles = [issue.title for issue in run.ready]
    run.todos = list(dict.fromkeys([*next_steps(run.found), *titles]))[: analysis.TODOS_MAX]
    if not run.todos:
        raise SkippedError("no next step is left")
    return f"{len(run.todos)} to create"


def _status(run: ResumeState) -> str:
    ports = run.ports
    if run.track is None:
        if ports.conductor.exists:
            ports.conductor.touch()
        raise SkippedError("general has no metadata.json")
    with ports.conductor.locked(run.track_id):
        text = ports.conductor.change_metadata(
            run.track_id, lambda text: metadata.with_status(text, "active")
        )
    ports.conductor.touch()
    if ports.session_id:
        ports.core.ledger.bind_track(ports.session_id, ports.project_id, run.track_id)
    if text is None:
        raise SkippedError("the track has no metadata.json")
    return "active"


RESUME: tuple[StepAction[ResumeState], ...] = (
    StepAction("5", "Beads", _beads),
    StepAction("6", "drift", _drift),
    StepAction("7", "analysis", _present),
    StepAction("8", "todo items", _todos),
    StepAction("9", "status", _status),
)


def outcome(run: ResumeState) -> dict[str, Any]:
    """Return what was found, for a program."""
    progress = run.standing.progress
    none = run.record is None
    code = EXIT_CHOICE_NEEDED if run.choice else EXIT_FAILED if none or run.failed else 0
    return {
        "mode": "resume",
        "track": run.track_id,
        "source": run.source,
        "record": analysis.as_dict(run.record) if run.record else None,
        "progress": {"percent": progress.percent, **progress._asdict()},
        "beads": {
            "home": run.beads_home,
            "epic": run.epic._asdict() if run.epic else None,
            "ready": [issue._asdict() for issue in run.ready],
        },
        "drift": run.drift.as_dict() if run.drift else None,
        "analysis": run.text,
        "todos": analysis.todos(run.todos),
        "choice": run.choice,
        "steps": run.listed(),
        "exit": code,
    }


def newest_age_days(ports: WorkContext) -> float | None:
    """Return how old the newest record is that is not archived; None if there is none."""
    found = [kept for kept in ports.conductor.records() if not kept.archived]
    if not found:
        return None
    return (clock.wall() - clock.parse(found[0].timestamp)) / clock.DAY_SECONDS
