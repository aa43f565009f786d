"""Steps 1 to 3 of CREATE: which track it is, who else is at work, what is known, what is secret."""

import os
import re
from collections.abc import Sequence
from dataclasses import replace

from handoff.common.errors import HandoffError
from handoff.common.triggers import EPIC_TRIGGERS
from handoffd.links.git import GitError
from handoffd.links.repository import Head, head
from handoffd.redaction.redact import compile_patterns
from handoffd.session.text import keep
from handoffd.tracks import record_sections
from handoffd.tracks.conductor_directory import Track
from handoffd.tracks.create_state import CreateState
from handoffd.tracks.masking import masked, masked_values
from handoffd.tracks.parallel_state import at_work
from handoffd.tracks.plan import PHASE_MAX
from handoffd.tracks.record import GENERAL, UNKNOWN, TrackRecord
from handoffd.tracks.record_sections import RecordFacts
from handoffd.tracks.steps import StepAction, StoppedError
from handoffd.tracks.work_context import known_track, standing, track_of_session

# All of it new to git: then it names the directory alone, and nobody knows what is work in it.
_ALL_NEW = "conductor/"
_ANSWERS = {
    "wait": "Wait for completion",
    "include": "Handoff anyway (include worker state)",
    "cancel": "Cancel",
}
_MASKED = re.compile(r"\[redacted:([\w-]{1,40})\]")


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
