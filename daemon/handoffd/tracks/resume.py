"""RESUME: continue a track where it was left, in nine steps; only its status is written."""

import math
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from handoff.common.errors import EXIT_CHOICE_NEEDED, EXIT_FAILED, HandoffError
from handoffd.links.agent_mail import MailError, thread_id
from handoffd.links.git import GitError
from handoffd.links.repository import Head, Since, head, since
from handoffd.links.tracker import Issue, TrackerError
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
from handoffd.tracks.steps import SkippedError, StepAction, StoppedError, Tell, run_steps
from handoffd.tracks.work_context import (
    EPICS_MAX,
    TITLE_MAX,
    WorkContext,
    known_track,
    track_overview,
)

READY_MAX = 10
_CHOICES_MAX = 20
NAME_MAX = 200


def resume(work: WorkContext, request: ResumeRequest, tell: Tell) -> dict[str, Any]:
    """Find the last record, compare it with the present, and return the next steps."""
    run = ResumeState(tell, work=work, request=request, settings=work.conductor.settings())
    run.patterns = compile_patterns(run.settings.secrets_patterns)
    run_steps(run, (*FIND, *RESUME))
    if request.implement and run.record is None and run.track_id:
        # A track can begin without a record, but its epic has to be known.
        with suppress(SkippedError):
            _beads(run)
    return outcome(run)


# 1 Which record


def _parse(run: ResumeState) -> str:
    target, conductor = run.request.target, run.work.conductor
    if target.endswith(".md") or "/" in target:
        return _by_path(run, target)
    if target == GENERAL:
        run.track_id = GENERAL
    elif target and conductor.handoffs(target):
        run.track_id = target  # also of a track that was finished
    elif target:
        run.track_id = known_track(run.work, target).id
    if run.track_id:
        run.records = conductor.handoffs(run.track_id)
        return f"track {run.track_id}"
    return _discover(run)


def _by_path(run: ResumeState, target: str) -> str:
    """Choose the record with a given path, relative to any directory."""
    named = [kept for kept in run.work.conductor.handoffs() if _is_meant(run, kept, target)]
    if not named:
        raise HandoffError(
            f"{target} is no record of this project.",
            "Records are in conductor/handoffs/<track>/; `handoff resume` finds the newest.",
        )
    run.records, run.track_id = named[:1], named[0].track_id
    return named[0].path


def _is_meant(run: ResumeState, kept: StoredRecord, target: str) -> bool:
    absolute = f"{run.work.root}/{kept.path}"
    return target in (kept.path, absolute) or absolute.endswith(f"/{target.removeprefix('./')}")


def _discover(run: ResumeState) -> str:
    """Find the newest record; with records of several tracks a choice is needed."""
    newest: dict[str, StoredRecord] = {}
    for kept in run.work.conductor.handoffs():
        if not kept.archived:
            newest.setdefault(kept.track_id, kept)
    if not newest:
        return "nothing named, no record on disk"
    if len(newest) == 1 and run.settings.auto_select_single:
        run.track_id = next(iter(newest))
        run.records = run.work.conductor.handoffs(run.track_id)
        return f"Auto-resuming from {run.track_id}..."
    run.choice = _choice(run, list(newest.values())[:_CHOICES_MAX])
    raise StoppedError(f"a choice is needed: {', '.join(newest)}")


def _choice(run: ResumeState, newest: Sequence[StoredRecord]) -> dict[str, Any]:
    options = []
    for kept in newest:
        found = run.work.conductor.read(kept.path)
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


# 2 to 4 The record's source


def _mail(run: ResumeState) -> str:
    mail = run.work.links.mail
    if not mail.url:
        raise SkippedError("no mail server is configured")
    if run.request.target and run.request.target.endswith(".md"):
        raise SkippedError("a file was named")
    try:
        if run.track_id:
            messages = mail.thread(run.work.root, thread_id(run.track_id))
        else:
            messages = mail.handoffs(run.work.root)
    except MailError as reason:
        raise SkippedError(f"Agent Mail unavailable - files are used: {reason}") from None
    if not messages:
        raise SkippedError("no handoff in the mail")
    run.message = messages[0]
    return f"{len(messages)} found, the newest of {run.message.created}"


def _files(run: ResumeState) -> str:
    if not run.records:
        if run.message is None:
            raise StoppedError("There is no record; make one: handoff create")
        raise SkippedError("no record on disk")
    count = len(run.records)
    return f"{run.records[0].path}, the newest of {count}" if count > 1 else run.records[0].path


def _load(run: ResumeState) -> str:
    """Load the mail if it is at least as new as the newest file, else the file."""
    newest = run.records[0] if run.records else None
    message = run.message
    # A mail without a body says less than a file.
    if message and newest is not None and not message.body:
        message = None
    if message and (newest is None or message.created >= newest.timestamp):
        run.record = letter.read(message.subject, message.body, message.created)
        run.source = "mail" if run.record else ""
    if run.record is None and newest is not None:
        run.record, run.source = run.work.conductor.read(newest.path), newest.path
    if run.record is None:
        raise HandoffError("What was found cannot be read.", "Name a file: handoff resume PATH")
    run.record = _cleaned(run.record, run.patterns)
    run.track_id = run.track_id or run.record.track_id
    warning = f"; warning: {run.record.warning}" if run.record.warning else ""
    return f"from {run.source}{warning}"


def _cleaned(record: TrackRecord, patterns: Patterns) -> TrackRecord:
    """Return a record that is safe to show, for any writer and any source."""

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
    work = run.work
    named = [run.loaded_record.bead_id] if run.record and run.loaded_record.bead_id else []
    run.track = None if run.track_id == GENERAL else work.conductor.track(run.track_id)
    run.overview = track_overview(work, run.track)
    epics = list(dict.fromkeys([*named, *run.overview.epics]))
    if not epics:
        raise SkippedError("no epic is named")
    if not work.tracker.exists():
        raise SkippedError("there is no .beads here")
    try:
        run.beads_home = work.tracker.home()
        run.epic = _shown_issue(_first_open_epic(run, epics), run.patterns)
        ready = work.tracker.ready(run.epic.id)[:READY_MAX]
        run.ready = [_shown_issue(issue, run.patterns) for issue in ready]
    except TrackerError as reason:
        raise SkippedError(f"no answer: {reason}") from None
    return f"{run.epic.id} is {run.epic.status}, {len(run.ready)} ready"


def _shown_issue(issue: Issue, patterns: Patterns) -> Issue:
    """Return the parts of an issue that are shown; its notes and all others stay in Beads."""
    return Issue(issue.id, masked(keep(issue.title, TITLE_MAX), patterns), issue.status, issue.type)


def _first_open_epic(run: ResumeState, epics: Sequence[str]) -> Issue:
    """Return the first epic that is not closed, or else the first."""
    found = []
    for epic in epics[:EPICS_MAX]:
        found.append(run.work.tracker.show(epic))
        if found[-1].status != "closed":
            return found[-1]
    return found[0]


# 6 Drift


def _drift(run: ResumeState) -> str:
    if not run.settings.show_drift:
        raise SkippedError("switched off in conductor/workflow.md")
    record = run.loaded_record
    try:
        here = head(run.work.root)
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

    A file that was already uncommitted when the record was made differs, too, but is no drift.
    """
    made = clock.parse(run.loaded_record.timestamp)
    named = (path for path in files_named(run.loaded_record) if path in different)
    return frozenset(path for path in named if _written(run, path) > made)


def _written(run: ResumeState, path: str) -> float:
    try:
        return os.lstat(os.path.join(run.work.root, path)).st_mtime
    except OSError:
        return math.inf


def _since(run: ResumeState, commit: str) -> Since:
    """Return the changes since the recorded commit, which may be unknown (rebase, other clone)."""
    if commit == UNKNOWN:
        return Since(None, ())
    try:
        return since(run.work.root, commit)
    except GitError:
        return Since(None, ())


def _exists(run: ResumeState, path: str) -> bool:
    """Return True if a file exists; a path outside the project is not checked."""
    whole = os.path.normpath(os.path.join(run.work.root, path))
    return not whole.startswith(f"{run.work.root}/") or os.path.lexists(whole)


def _red_tests(run: ResumeState) -> str:
    """Return the tests that failed last, by the session or by the record itself."""
    state = run.work.state
    red = [check for check in state.checks if not check.green] if state else []
    if red:
        return max(red, key=lambda check: check.at).summary
    lines = [line for lines in run.loaded_record.sections.values() for line in lines]
    return next((line.lstrip("- ") for line in lines if "Tests red:" in line), "")


# 7 to 9


def _present(run: ResumeState) -> str:
    progress = analysis.TrackProgress(run.overview.progress, run.epic, run.ready)
    run.text = analysis.present(run.loaded_record, run.source, progress, run.drift)
    if run.request.framed:
        run.text = analysis.framed(run.text, run.work.root)
    return f"{run.overview.progress.percent}% done"


def _todos(run: ResumeState) -> str:
    titles = [issue.title for issue in run.ready]
    run.todos = list(dict.fromkeys([*next_steps(run.loaded_record), *titles]))[: analysis.TODOS_MAX]
    if not run.todos:
        raise SkippedError("no next step is left")
    return f"{len(run.todos)} to create"


def _status(run: ResumeState) -> str:
    work = run.work
    if run.track is None:
        if work.conductor.exists:
            work.conductor.touch()
        raise SkippedError("general has no metadata.json")
    with work.conductor.locked(run.track_id):
        text = work.conductor.change_metadata(
            run.track_id, lambda text: metadata.with_status(text, "active")
        )
    work.conductor.touch()
    if work.session_id and run.request.framed:
        work.core.ledger.bind_track(work.session_id, work.project_id, run.track_id)
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
    """Return the outcome as JSON data."""
    progress = run.overview.progress
    none = run.record is None
    code = EXIT_CHOICE_NEEDED if run.choice else EXIT_FAILED if none or run.failed else 0
    return {
        "mode": "resume",
        "track": run.track_id,
        "source": run.source,
        "record": analysis.as_dict(run.record) if run.record else None,
        "progress": progress.as_dict(),
        "disagreement": progress.differs,
        "beads": {
            "home": run.beads_home,
            "epic": run.epic._asdict() if run.epic else None,
            "ready": [issue._asdict() for issue in run.ready],
        },
        "drift": run.drift.as_dict() if run.drift else None,
        "analysis": run.text,
        "todos": analysis.todos(run.todos),
        "choice": run.choice,
        "steps": run.as_dicts(),
        "exit": code,
    }


def newest_age_days(work: WorkContext) -> float | None:
    """Return the age of the newest record that is not archived, or None without records."""
    found = [kept for kept in work.conductor.handoffs() if not kept.archived]
    if not found:
        return None
    return (clock.wall() - clock.parse(found[0].timestamp)) / clock.DAY_SECONDS
