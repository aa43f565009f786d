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
from handoffd.tracks.parallel_state import at_work
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
    walk,
)
from handoffd.tracks.work_context import WorkContext, known_track, standing, track_of_session

# A session is over, or is to be, with these.
_FINAL = ("manual", "idle")
_BRIEF_MAX = 80
# All of it new to git: then it names the directory alone, and nobody knows what is work in it.
_ALL_NEW = "conductor/"
_ANSWERS = {
    "wait": "Wait for completion",
    "include": "Handoff anyway (include worker state)",
    "cancel": "Cancel",
}
_MASKED = re.compile(r"\[redacted:([\w-]{1,40})\]")


def create(ports: WorkContext, request: CreateRequest, tell: Tell, cause: str) -> dict[str, Any]:
    """Make a record, or as much of it as can be, and say what came of each step."""
    request = replace(request, at=request.at or clock.iso_milliseconds())
    run = CreateState(tell, ports=ports, request=request, cause=cause)
    if walk(run, GATHER):
        with ports.conductor.locked(run.track_id):
            _fix_name(run)
            walk(run, WRITE)
        _send(run)
    return outcome(run)


def preview(ports: WorkContext, request: CreateRequest, tell: Tell) -> dict[str, Any]:
    """Show what would be written, and write nothing."""
    request = replace(request, at=request.at or clock.iso_milliseconds())
    run = CreateState(tell, ports=ports, request=request)
    found: dict[str, Any] = {"record": "", "note": ""}
    if walk(run, GATHER) and run.facts:
        _fix_name(run)
        found["record"] = render(run.made)
        found["note"] = _note(run, run.facts) if _target(run) else ""
    return outcome(run) | found


# 1 Which track


def _context(run: CreateState) -> str:
    ports = run.ports
    if os.path.islink(f"{ports.root}/conductor"):
        raise HandoffError("conductor is a symlink.", "Replace it by a real directory.")
    if not ports.conductor.exists and not (run.request.general or ports.links.general):
        raise StoppedError("There is no conductor/ here; --general makes one for the record")
    if run.request.track == GENERAL:
        return "general, as you said"
    if meant := _meant(run):
        return _settle_on(run, *meant)
    active = [track for track in ports.conductor.tracks() if track.is_active]
    if len(active) == 1:
        return _settle_on(run, active[0], "the one that is active")
    if active:
        names = ", ".join(track.id for track in active[:5])
        return f"general: {len(active)} tracks are active ({names}); --track names one"
    return "general: no track is active"


def _meant(run: CreateState) -> tuple[Track, str] | None:
    """Return the track that is named, by the request, by its epic or by the session; and why."""
    ports = run.ports
    if run.request.track:
        return known_track(ports, run.request.track), "as you said"
    tracks = {track.id: track for track in ports.conductor.tracks()}
    for word in run.request.words.split():
        if word in tracks:
            return tracks[word], "as was said"
    for track in tracks.values() if run.request.bead else ():
        if track.metadata and run.request.bead in track.metadata.epics:
            return track, f"which names {run.request.bead}"
    # One that was finished meanwhile is no longer there.
    bound = tracks.get(track_of_session(ports, tracks))
    return (bound, "the session's") if bound else None


def _settle_on(run: CreateState, track: Track, why: str) -> str:
    run.track, run.track_id = track, track.id
    ids = {known.id for known in run.ports.conductor.tracks()}
    run.own = run.request.binds or track_of_session(run.ports, ids) in ("", track.id)
    return f"{track.id}, {why}"


# 1a Parallel workers


def _parallel(run: CreateState) -> str:
    run.workers = at_work(run.ports, run.track)
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


# 2 What is known


def _gather(run: CreateState) -> str:
    ports = run.ports
    try:
        run.head = head(ports.root)
        git = _git_words(run.head)
    except GitError as reason:
        git = f"unknown: {reason}"
    run.standing = standing(ports, run.track)
    plan, work = run.standing.plan, run.standing.work
    head_now = run.head or Head()
    run.facts = RecordFacts(
        track_id=run.track_id,
        progress=run.standing.progress,
        phase=keep(run.request.phase or (plan.phase if plan else ""), PHASE_MAX),
        current=work.current,
        open=work.open,
        blocked=work.blocked,
        # What a session did for another track says nothing of this one.
        left=ports.session.told if run.own else None,
        state=ports.state if run.own else None,
        git=keep(git, 300),
        uncommitted=[path for path in head_now.uncommitted if path != _ALL_NEW],
        workers=[worker for worker in run.workers if worker.active or worker.stale],
    )
    run.record = _composed(run, run.facts)
    beads = f"; Beads: {run.standing.problem}" if run.standing.problem else ""
    unknown = ports.state is not None and not ports.state.records
    session = f"; nothing is known of session {ports.session_id}" if unknown else ""
    return f"{git}; {record_sections.described(run.standing.progress)}{beads}{session}"


def _git_words(found: Head) -> str:
    where = f"HEAD is detached at {found.commit[:7]}" if found.detached else found.branch
    parts = [where or UNKNOWN]
    for number, word in ((found.ahead, "ahead"), (found.behind, "behind")):
        parts += [f"{number} {word}"] if number else []
    dirty = len(found.uncommitted)
    parts.append(f"{dirty} uncommitted" if dirty else "clean")
    return ", ".join(parts)


def _composed(run: CreateState, facts: RecordFacts) -> TrackRecord:
    request, found = run.request, run.head or Head()
    bead = request.bead or next(iter(run.standing.epics), "")
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
        sections=record_sections.sections(facts, run.ports.root),
    )


# 3 Secrets


def _secrets(run: CreateState) -> str:
    settings = run.ports.conductor.settings()
    run.patterns = compile_patterns(settings.secrets_patterns)
    if settings.problem and run.request.strict:
        raise HandoffError(f"conductor/workflow.md: {settings.problem}.", "Mend it.")
    unsure = f"; conductor/workflow.md: {settings.problem}" if settings.problem else ""
    cleaned: dict[str, Sequence[str]] = {}
    for name, lines in run.made.sections.items():
        cleaned[name] = [masked(line, run.patterns) for line in lines]
        for number, line in enumerate(cleaned[name], start=1):
            for kind in _MASKED.findall(line):
                run.secrets.append({"kind": kind, "section": name, "line": number, "text": line})
    validation = masked_values(run.made.validation_snapshot, run.patterns)
    run.record = replace(run.made, sections=cleaned, validation_snapshot=validation)
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
    StepAction("1a", "parallel workers", _parallel, needed=True),
    StepAction("2", "metadata", _gather, needed=True),
    StepAction("3", "secrets", _secrets, needed=True),
)


# The name


def _fix_name(run: CreateState) -> None:
    """Decide on the file and the section, and remember it before anything is written."""
    conductor = run.ports.conductor
    if not run.request.name:
        taken = [kept.path.rpartition("/")[2] for kept in conductor.records(run.track_id)]
        run.request = replace(
            run.request, name=file_name(run.made, taken), track=run.track_id, if_parallel="include"
        )
    run.path = f"{conductor.handoffs_directory(run.track_id)}/{run.request.name}"
    # Read anew, with the lock held.
    run.track = conductor.track(run.track_id) if run.track else None
    if run.track and run.track.metadata:
        run.section = metadata.section_for(run.track.metadata, run.request.name)
    if run.cause:
        maker = {**run.request.as_dict(), "pid": os.getpid()}
        run.ports.core.ledger.set_request(run.cause, maker)


# 4 and 5 Letters


def _mail(run: CreateState) -> str:
    ports = run.ports
    if not ports.links.mail.url:
        raise SkippedError("no mail server is configured")
    made = run.made
    text = message.body(made, run.facts.phase if run.facts else "", run.path)
    subject = message.subject(made, summary(made, _BRIEF_MAX))
    body = mail_body(subject, text, message.importance(made.trigger))
    return _queue(run, "mail", thread_id(run.track_id), body)


def _beads(run: CreateState) -> str:
    target = _target(run)
    if not target:
        raise SkippedError(
            "general has no epic" if run.track is None else "the track names no epic"
        )
    if not run.ports.beads.exists():
        raise SkippedError("there is no .beads here")
    if run.facts is None:
        raise SkippedError("nothing is known")
    return _queue(run, "beads", target, _note(run, run.facts))


def _note(run: CreateState, facts: RecordFacts) -> str:
    lines = record_sections.note(facts, run.section, run.path).split("\n")
    return "\n".join(masked(line, run.patterns) for line in lines)


def _target(run: CreateState) -> str:
    """Return the epic whose notes tell of the record."""
    if run.track is None:
        return ""
    return run.request.bead or next(iter(run.standing.epics), "")


def _queue(run: CreateState, kind: str, target: str, body: str) -> str:
    ports = run.ports
    ports.core.outbox.queue(
        kind, ports.project_id, ports.root, run.key, target, body, clock.iso_milliseconds()
    )
    return "written, to be sent when the file is there"


# 6 to 9 Files


def _file(run: CreateState) -> str:
    run.ports.conductor.put_record(run.request.name, run.made)
    return run.path


def _metadata(run: CreateState) -> str:
    track = run.track
    if track is None:
        raise SkippedError("general has no metadata.json")
    made, done = run.made, run.standing.progress
    entry = metadata.HandoffEntry(
        made.timestamp,
        made.trigger,
        made.bead_id or None,
        (run.facts.phase if run.facts else "") or None,
        done.done,
        done.total,
        run.request.name,
    )

    def change(text: str) -> str:
        changed, run.section = metadata.with_entry(text, entry, status_after(run), done.percent)
        return changed

    if run.ports.conductor.change_metadata(track.id, change) is None:
        raise SkippedError("the track has no metadata.json")
    return f"section {run.section}, {done.percent}%, {status_after(run)}"


def status_after(run: CreateState) -> str:
    """Tell a track whose session goes on from one that was handed off."""
    goes_on = run.own and run.ports.session.live and run.request.trigger not in _FINAL
    return "active" if goes_on else "handed_off"


def _index(run: CreateState) -> str:
    repaired = run.ports.conductor.complete_index(run.track_id, clock.iso())
    return "repaired from the files that are there" if repaired else "one more row"


def _touch(run: CreateState) -> str:
    run.ports.conductor.touch()
    if run.ports.session_id and run.track is not None and run.request.binds:
        ports = run.ports
        ports.core.ledger.bind_track(ports.session_id, ports.project_id, run.track_id)
    return "touched"


WRITE: tuple[StepAction[CreateState], ...] = (
    StepAction("4", "Agent Mail", _mail),
    StepAction("5", "Beads", _beads),
    StepAction("6", "file", _file, needed=True),
    StepAction("7", "metadata.json", _metadata),
    StepAction("8", "index.md", _index),
    StepAction("9", ".last_activity", _touch),
)


def _send(run: CreateState) -> None:
    """Send what waits for the file; without the file nothing is to be said of it."""
    outbox = run.ports.core.outbox
    if run.outcome_of("6") != DONE:
        outbox.drop_held(run.key)
        return
    outbox.release(run.key)
    unsent = run.ports.deliver(run.key)
    for number, kind, sent in (("4", "mail", "sent"), ("5", "beads", "note appended")):
        if run.outcome_of(number) == DONE:
            run.revise(number, *_sent(unsent.get(kind), sent))


def _sent(unsent: Letter | None, sent: str) -> tuple[str, str]:
    """Say what became of a letter: it arrived, waits, or was given up."""
    if unsent is None:
        return DONE, sent
    problem = unsent.problem or "an earlier one waits"
    if unsent.dead:
        return SKIPPED, f"given up: {problem}"
    return WAITING, f"not sent yet, it is tried again: {problem}"


def outcome(run: CreateState) -> dict[str, Any]:
    """Return what came of it, for a program."""
    progress = run.standing.progress
    stopped = run.outcome_of("6") != DONE
    code = EXIT_CHOICE_NEEDED if run.choice else EXIT_FAILED if run.failed else 0
    return {
        "mode": "create",
        "trigger": run.request.trigger,
        "track": run.track_id,
        "bead": run.record.bead_id if run.record else "",
        "file": "" if stopped and run.cause else run.path,
        "section": run.section,
        "progress": {"percent": progress.percent, **progress._asdict()},
        "status": "" if stopped or run.track is None else status_after(run),
        "secrets": run.secrets,
        "choice": run.choice,
        "cancelled": run.cancelled,
        "passing": run.passing,
        "steps": run.listed(),
        "exit": code,
    }
