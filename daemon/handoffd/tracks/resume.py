"""RESUME: take up a track where it was left, in nine steps; nothing but its status is written."""

import math
import os
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from handoff.common.errors import EXIT_CHOICE_NEEDED, EXIT_FAILED
from handoffd.links.beads import BeadsError, Issue
from handoffd.links.git import GitError
from handoffd.links.repository import Head, Since, head, since
from handoffd.redaction.redact import compile_patterns
from handoffd.runtime import clock
from handoffd.session.text import keep
from handoffd.tracks import analysis, metadata
from handoffd.tracks.masking import Patterns, masked
from handoffd.tracks.record import GENERAL, UNKNOWN, files_named, next_steps
from handoffd.tracks.resume_find import FIND
from handoffd.tracks.resume_state import ResumeRequest, ResumeState
from handoffd.tracks.steps import SkippedError, StepAction, Tell, walk
from handoffd.tracks.work_context import EPICS_MAX, TITLE_MAX, WorkContext, standing

READY_MAX = 10


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


def _told(issue: Issue, patterns: Patterns) -> Issue:
    """Return what is shown of an issue: its notes and all else are Beads' own."""
    return Issue(issue.id, masked(keep(issue.title, TITLE_MAX), patterns), issue.status, issue.type)


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
