"""CREATE: a track record in nine steps, each safe to repeat.

A record's name is fixed, and stored, before anything is written: a run that takes up the work of a
killed one finds the parts that exist and adds the others. Letters to Beads and to mail are held
until the file that they name exists.
"""

import os
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from handoff.common.errors import EXIT_CHOICE_NEEDED, EXIT_FAILED, HandoffError
from handoff.common.triggers import EPIC_TRIGGERS
from handoffd.links.agent_mail import thread_id
from handoffd.links.git import GitError
from handoffd.links.repository import Head, head
from handoffd.redaction.redact import compile_patterns
from handoffd.runtime import clock
from handoffd.session.text import keep
from handoffd.store.outbox import Letter
from handoffd.tracks import message, metadata, record_sections
from handoffd.tracks.conductor_directory import Track
from handoffd.tracks.create_state import CreateRequest, CreateState
from handoffd.tracks.masking import masked, masked_values
from handoffd.tracks.outbox_sender import mail_body
from handoffd.tracks.parallel_state import find_workers
from handoffd.tracks.plan import PHASE_MAX
from handoffd.tracks.record import GENERAL, UNKNOWN, TrackRecord, file_name, render, summary
from handoffd.tracks.record_sections import RecordFacts
from handoffd.tracks.steps import (
    DONE,
    SKIPPED,
    WAITING,
    SkippedError,
    StepAction,
    StoppedError,
    Tell,
    run_steps,
)
from handoffd.tracks.work_context import (
    WorkContext,
    known_track,
    named_track,
    track_of_session,
    track_overview,
)

# With these triggers a session has ended, or is about to end.
_FINAL = ("manual", "idle")
_BRIEF_MAX = 80
# If all of conductor/ is new to git, git lists only the directory, which says nothing of work.
_ALL_NEW = "conductor/"
_ANSWERS = {
    "wait": "Wait for completion",
    "include": "Handoff anyway (include worker state)",
    "cancel": "Cancel",
}
_MASKED = re.compile(r"\[redacted:([\w-]{1,40})\]")


def create(work: WorkContext, request: CreateRequest, tell: Tell, cause: str) -> dict[str, Any]:
    """Create a record, or as much of it as possible. Return the outcome of each step."""
    request = replace(request, at=request.at or clock.iso_milliseconds())
    run = CreateState(tell, work=work, request=request, cause=cause)
    if run_steps(run, GATHER):
        with work.conductor.locked(run.track_id):
            _fix_name(run)
            run_steps(run, WRITE)
        _send_letters(run)
    return outcome(run)


def preview(work: WorkContext, request: CreateRequest, tell: Tell) -> dict[str, Any]:
    """Return the texts that would be written, and write nothing."""
    request = replace(request, at=request.at or clock.iso_milliseconds())
    run = CreateState(tell, work=work, request=request)
    found: dict[str, Any] = {"record": "", "note": ""}
    if run_steps(run, GATHER) and run.facts:
        _fix_name(run)
        found["record"] = render(run.composed)
        found["note"] = _note(run, run.facts) if _epic_of(run) else ""
    return outcome(run) | found


# 1 Which track


def _context(run: CreateState) -> str:
    work = run.work
    if os.path.islink(f"{work.root}/conductor"):
        raise HandoffError("conductor is a symlink.", "Replace it by a real directory.")
    if not work.conductor.exists and not (run.request.general or work.links.general):
        raise StoppedError("There is no conductor/ here; --general makes one for the record")
    if run.request.track == GENERAL:
        return "general, as you said"
    if meant := _named_track(run):
        return _choose_track(run, *meant)
    active = [track for track in work.conductor.tracks() if track.is_active]
    begun = [track for track in active if track.is_begun]
    for found, why in ((begun, "the one in progress"), (active, "the one that is active")):
        if len(found) == 1:
            return _choose_track(run, found[0], why)
    if several := begun or active:
        names = ", ".join(track.id for track in several[:5])
        return f"general: {len(several)} tracks are active ({names}); --track names one"
    return "general: no track is active"


def _named_track(run: CreateState) -> tuple[Track, str] | None:
    """Return the track that the request, its epic or the session names, and the reason."""
    work = run.work
    if run.request.track:
        return known_track(work, run.request.track), "as you said"
    tracks = {track.id: track for track in work.conductor.tracks()}
    if said := named_track(run.request.words, tracks):
        return tracks[said], "as was said"
    # A track that a trigger names may have been archived since.
    archived = named_track(run.request.words, work.conductor.archived_ids())
    if archived and (track := work.conductor.track(archived)):
        return track, "as was said, from the archive"
    for track in tracks.values() if run.request.bead else ():
        if run.request.bead in track.epics:
            return track, f"which names {run.request.bead}"
    # A track that was finished meanwhile is no longer there.
    bound = tracks.get(track_of_session(work, tracks))
    return (bound, "the session's") if bound else None


def _choose_track(run: CreateState, track: Track, why: str) -> str:
    run.track, run.track_id = track, track.id
    ids = {known.id for known in run.work.conductor.tracks()}
    run.is_own_track = run.request.binds or track_of_session(run.work, ids) in ("", track.id)
    return f"{track.id}, {why}"


# 1a Parallel workers


def _parallel_workers(run: CreateState) -> str:
    run.workers = find_workers(run.work, run.track)
    active = [worker for worker in run.workers if worker.active]
    if not active:
        stale = sum(1 for worker in run.workers if worker.stale)
        return f"none at work, {stale} stale" if stale else "none at work"
    names = ", ".join(worker.name for worker in active)
    if run.request.if_parallel == "include":
        return f"{names}: included"
    if run.request.if_parallel == "cancel":
        run.cancelled = True
        raise StoppedError(f"cancelled, at work: {names}")
    again = run.request.repeated(run.track_id)
    run.choice = {
        "question": f"Parallel workers running: [{names}]",
        "workers": [worker._asdict() for worker in active],
        "options": _ANSWERS,
        "flag": "--if-parallel",
        "commands": {name: f"{again} --if-parallel {name}" for name in _ANSWERS},
    }
    raise StoppedError(f"a choice is needed, at work: {names}")


# 2 Facts


def _gather(run: CreateState) -> str:
    work = run.work
    try:
        run.head = head(work.root)
        git = _git_words(run.head)
    except GitError as reason:
        git = f"unknown: {reason}"
    run.overview = track_overview(work, run.track)
    plan, tasks = run.overview.plan, run.overview.work
    head_now = run.head or Head()
    run.facts = RecordFacts(
        track_id=run.track_id,
        progress=run.overview.progress,
        phase=keep(run.request.phase or (plan.phase if plan else ""), PHASE_MAX),
        current=tasks.current,
        open=tasks.open,
        blocked=tasks.blocked,
        # The work of a session on another track says nothing about this one.
        contract=work.session.contract if run.is_own_track else None,
        state=work.state if run.is_own_track else None,
        git=keep(git, 300),
        uncommitted=[path for path in head_now.uncommitted if path != _ALL_NEW],
        workers=[worker for worker in run.workers if worker.active or worker.stale],
    )
    run.record = _compose(run, run.facts)
    beads = f"; Beads: {run.overview.problem}" if run.overview.problem else ""
    unknown = work.state is not None and not work.state.records
    session = f"; nothing is known of session {work.session_id}" if unknown else ""
    return f"{git}; {record_sections.progress_text(run.overview.progress)}{beads}{session}"


def _git_words(found: Head) -> str:
    where = f"HEAD is detached at {found.commit[:7]}" if found.detached else found.branch
    parts = [where or UNKNOWN]
    for number, word in ((found.ahead, "ahead"), (found.behind, "behind")):
        parts += [f"{number} {word}"] if number else []
    dirty = len(found.uncommitted)
    parts.append(f"{dirty} uncommitted" if dirty else "clean")
    return ", ".join(parts)


def _compose(run: CreateState, facts: RecordFacts) -> TrackRecord:
    request, found = run.request, run.head or Head()
    bead = request.bead or next(iter(run.overview.epics), "")
    validation = run.track.metadata.validation if run.track and run.track.metadata else None
    return TrackRecord(
        timestamp=request.at,
        trigger=request.trigger,
        track_id=run.track_id,
        bead_id=keep(bead, 200) if request.trigger in EPIC_TRIGGERS else "",
        git_commit=found.commit[:7] or UNKNOWN,
        git_branch="(detached)" if found.detached else keep(found.branch, 200) or UNKNOWN,
        author=request.author,
        validation_snapshot=validation,
        sections=record_sections.sections(facts, run.work.root),
    )


# 3 Secrets


def _mask_secrets(run: CreateState) -> str:
    settings = run.work.conductor.settings()
    run.patterns = compile_patterns(settings.secrets_patterns)
    if settings.problem and run.request.strict:
        raise HandoffError(f"conductor/workflow.md: {settings.problem}.", "Mend it.")
    unsure = f"; conductor/workflow.md: {settings.problem}" if settings.problem else ""
    cleaned: dict[str, Sequence[str]] = {}
    for name, lines in run.composed.sections.items():
        cleaned[name] = [masked(line, run.patterns) for line in lines]
        for number, line in enumerate(cleaned[name], start=1):
            for kind in _MASKED.findall(line):
                run.secrets.append({"kind": kind, "section": name, "line": number, "text": line})
    validation = masked_values(run.composed.validation_snapshot, run.patterns)
    run.record = replace(run.composed, sections=cleaned, validation_snapshot=validation)
    if run.facts:
        run.facts = replace(run.facts, phase=masked(run.facts.phase, run.patterns))
    if not run.secrets:
        return f"none found{unsure}"
    kinds = ", ".join(sorted({item["kind"] for item in run.secrets}))
    if run.request.strict:
        first = run.secrets[0]
        raise HandoffError(
            f"{len(run.secrets)} found ({kinds}), the first in {first['section']}, line "
            f"{first['line']}: nothing was written.",
            "Without --strict they are masked.",
        )
    return f"{len(run.secrets)} masked ({kinds}){unsure}"


GATHER: tuple[StepAction[CreateState], ...] = (
    StepAction("1", "context", _context, needed=True),
    StepAction("1a", "parallel workers", _parallel_workers, needed=True),
    StepAction("2", "metadata", _gather, needed=True),
    StepAction("3", "secrets", _mask_secrets, needed=True),
)


# The name


def _fix_name(run: CreateState) -> None:
    """Choose the file and the section, and store them before anything is written."""
    conductor = run.work.conductor
    if not run.request.name:
        taken = [kept.path.rpartition("/")[2] for kept in conductor.records(run.track_id)]
        run.request = replace(
            run.request,
            name=file_name(run.composed, taken),
            track=run.track_id,
            if_parallel="include",
        )
    run.path = f"{conductor.handoffs_directory(run.track_id)}/{run.request.name}"
    # Read again, now with the lock held.
    run.track = conductor.track(run.track_id) if run.track else None
    if run.track and run.track.metadata:
        run.section = metadata.section_for(run.track.metadata, run.request.name)
    if run.cause:
        maker = {**run.request.as_dict(), "pid": os.getpid()}
        run.work.core.ledger.set_request(run.cause, maker)


# 4 and 5 Letters


def _mail(run: CreateState) -> str:
    work = run.work
    if not work.links.mail.url:
        raise SkippedError("no mail server is configured")
    composed = run.composed
    text = message.body(composed, run.facts.phase if run.facts else "", run.path)
    subject = message.subject(composed, summary(composed, _BRIEF_MAX))
    body = mail_body(subject, text, message.importance(composed.trigger))
    return _queue(run, "mail", thread_id(run.track_id), body)


def _beads(run: CreateState) -> str:
    target = _epic_of(run)
    if not target:
        raise SkippedError(
            "general has no epic" if run.track is None else "the track names no epic"
        )
    if not run.work.tracker.exists():
        raise SkippedError("there is no .beads here")
    if run.facts is None:
        raise SkippedError("nothing is known")
    return _queue(run, "beads", target, _note(run, run.facts))


def _note(run: CreateState, facts: RecordFacts) -> str:
    lines = record_sections.note(facts, run.section, run.path).split("\n")
    return "\n".join(masked(line, run.patterns) for line in lines)


def _epic_of(run: CreateState) -> str:
    """Return the epic whose notes will mention the record."""
    if run.track is None:
        return ""
    return run.request.bead or next(iter(run.overview.epics), "")


def _queue(run: CreateState, kind: str, target: str, body: str) -> str:
    work = run.work
    work.core.outbox.queue(
        kind, work.project_id, work.root, run.key, target, body, clock.iso_milliseconds()
    )
    return "written, to be sent when the file is there"


# 6 to 9 Files


def _file(run: CreateState) -> str:
    run.work.conductor.put_record(run.request.name, run.composed)
    return run.path


def _metadata(run: CreateState) -> str:
    track = run.track
    if track is None:
        raise SkippedError("general has no metadata.json")
    composed, done = run.composed, run.overview.progress
    entry = metadata.HandoffEntry(
        composed.timestamp,
        composed.trigger,
        composed.bead_id or None,
        (run.facts.phase if run.facts else "") or None,
        done.done,
        done.total,
        run.request.name,
    )

    def change(text: str) -> str:
        changed, run.section = metadata.with_entry(text, entry, status_after(run), done.percent)
        return changed

    if run.work.conductor.change_metadata(track.id, change) is None:
        raise SkippedError("the track has no metadata.json")
    return f"section {run.section}, {done.percent}%, {status_after(run)}"


def status_after(run: CreateState) -> str:
    """Return `active` if the session goes on with the track, else `handed_off`."""
    goes_on = run.is_own_track and run.work.session.live and run.request.trigger not in _FINAL
    return "active" if goes_on else "handed_off"


def _index(run: CreateState) -> str:
    repaired = run.work.conductor.complete_index(run.track_id, clock.iso())
    return "repaired from the files that are there" if repaired else "one more row"


def _touch(run: CreateState) -> str:
    run.work.conductor.touch()
    if run.work.session_id and run.track is not None and run.request.binds:
        work = run.work
        work.core.ledger.bind_track(work.session_id, work.project_id, run.track_id)
    return "touched"


WRITE: tuple[StepAction[CreateState], ...] = (
    StepAction("4", "Agent Mail", _mail),
    StepAction("5", "Beads", _beads),
    StepAction("6", "file", _file, needed=True),
    StepAction("7", "metadata.json", _metadata),
    StepAction("8", "index.md", _index),
    StepAction("9", ".last_activity", _touch),
)


def _send_letters(run: CreateState) -> None:
    """Send the letters that wait for the file. Without the file, drop them."""
    outbox = run.work.core.outbox
    if run.outcome_of("6") != DONE:
        outbox.drop_held(run.key)
        return
    outbox.release(run.key)
    unsent = run.work.deliver(run.key)
    for number, kind, sent in (("4", "mail", "sent"), ("5", "beads", "note appended")):
        if run.outcome_of(number) == DONE:
            run.revise(number, *_letter_outcome(unsent.get(kind), sent))


def _letter_outcome(unsent: Letter | None, sent: str) -> tuple[str, str]:
    """Return the outcome of a letter's step: it was sent, waits, or was given up."""
    if unsent is None:
        return DONE, sent
    problem = unsent.problem or "an earlier one waits"
    if unsent.dead:
        return SKIPPED, f"given up: {problem}"
    return WAITING, f"not sent yet, it is tried again: {problem}"


def outcome(run: CreateState) -> dict[str, Any]:
    """Return the outcome as JSON data."""
    progress = run.overview.progress
    stopped = run.outcome_of("6") != DONE
    code = EXIT_CHOICE_NEEDED if run.choice else EXIT_FAILED if run.failed else 0
    return {
        "mode": "create",
        "trigger": run.request.trigger,
        "track": run.track_id,
        "bead": run.record.bead_id if run.record else "",
        "file": "" if stopped and run.cause else run.path,
        "section": run.section,
        "progress": progress.as_dict(),
        "disagreement": progress.differs,
        "status": "" if stopped or run.track is None else status_after(run),
        "secrets": run.secrets,
        "choice": run.choice,
        "cancelled": run.cancelled,
        "passing": run.transient,
        "steps": run.as_dicts(),
        "exit": code,
    }
