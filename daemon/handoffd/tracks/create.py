"""CREATE: a track record in nine steps, each safe to repeat.

A record's name is fixed, and remembered, before anything is written: whoever takes up the work
of a killed one finds what is there and adds what is not. Letters to Beads and to mail are held
until the file that they name is there.
"""

import os
from dataclasses import replace
from typing import Any

from handoff.common.errors import EXIT_CHOICE_NEEDED, EXIT_FAILED
from handoffd.links.agent_mail import thread_id
from handoffd.runtime import clock
from handoffd.store.outbox import Letter
from handoffd.tracks import message, metadata, record_sections
from handoffd.tracks.create_gather import GATHER
from handoffd.tracks.create_state import CreateRequest, CreateState
from handoffd.tracks.mail_delivery import mail_body
from handoffd.tracks.masking import masked
from handoffd.tracks.record import file_name, render, summary
from handoffd.tracks.record_sections import RecordFacts
from handoffd.tracks.steps import DONE, SKIPPED, WAITING, SkippedError, StepAction, Tell, walk
from handoffd.tracks.work_context import WorkContext

# A session is over, or is to be, with these.
_FINAL = ("manual", "idle")
_BRIEF_MAX = 80


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
