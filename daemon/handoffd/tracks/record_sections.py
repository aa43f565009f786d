"""Composes the four sections of a track record, from a session, a plan and git. Pure."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from handoffd.contract.contract_format import Contract
from handoffd.contract.prose import prose
from handoffd.session.state import SessionState
from handoffd.session.text import keep
from handoffd.tracks.parallel_workers import ParallelWorker
from handoffd.tracks.plan import Progress

CHANGES_MAX, LEARNINGS_MAX, STEPS_MAX, DECISIONS_MAX = 15, 10, 7, 5
_LINE_MAX = 300
NONE = "none"
_METADATA = re.compile(r"conductor/tracks/[^/]+/metadata\.json")
_UNSAVED = re.compile(r"\d+ (?:file|commit)s? (?:is|are) (?:uncommitted|not pushed)")


@dataclass(frozen=True, slots=True)
class RecordFacts:
    """The facts from which a record is made."""

    track_id: str
    progress: Progress
    phase: str = ""
    # The tasks, from the same source as the progress.
    current: Sequence[str] = ()
    open: Sequence[str] = ()
    blocked: Sequence[str] = ()
    # The contract of the session (see contract/composition.py), and the session itself.
    contract: Contract | None = None
    state: SessionState | None = None
    # In words: "main, 2 commits ahead, 3 files uncommitted".
    git: str = ""
    uncommitted: Sequence[str] = ()
    workers: Sequence[ParallelWorker] = ()


def sections(facts: RecordFacts, root: str) -> dict[str, list[str]]:
    """Return the lines of each section."""
    found = {
        "Context": list(_context(facts)),
        "Changes": list(_changes(facts, root))[:CHANGES_MAX],
        "Learnings": _learnings(facts)[:LEARNINGS_MAX],
        "Next Steps": [
            f"{number}. [ ] {step}" for number, step in enumerate(upcoming(facts), start=1)
        ],
    }
    if facts.workers:
        found["Parallel Workers"] = [_worker(worker) for worker in facts.workers]
    return found


def _context(facts: RecordFacts) -> Iterator[str]:
    purpose = facts.contract.purpose if facts.contract else ""
    yield purpose or f"{facts.phase or 'By what is on disk'}: {progress_text(facts.progress)}"
    yield ""
    yield f"- Track: {facts.track_id}"
    yield f"- Phase: {facts.phase or NONE}"
    yield f"- Decisions made: {'; '.join(decisions(facts)) or NONE}"
    yield f"- Progress: {progress_text(facts.progress)}"
    if facts.git:
        yield f"- Git: {facts.git}"


def progress_text(progress: Progress) -> str:
    """Return a progress in words: `41% (5/12 tasks, by the plan)`."""
    by = {"beads": ", by Beads", "plan": ", by the plan"}.get(progress.source, "")
    differs = f"; {progress.differs}" if progress.differs else ""
    return f"{progress.percent}% ({progress.done}/{progress.total} tasks{by}{differs})"


def decisions(facts: RecordFacts) -> list[str]:
    """Return a person's decisions, the latest first."""
    made = reversed(facts.state.decisions) if facts.state else ()
    lines = [prose(value.text) for value in made]
    return list(dict.fromkeys(line for line in lines if line))[:DECISIONS_MAX]


def _changes(facts: RecordFacts, root: str) -> Iterator[str]:
    named = set()
    files = facts.state.files if facts.state else []
    for file in sorted(files, key=lambda file: -file.edited_at):
        path = _path(file.path, root)
        if file.edits > 0 and path not in named and not _is_bookkeeping(path):
            named.add(path)
            times = "edited" if file.edits == 1 else f"edited {file.edits} times"
            state = ", uncommitted" if path in facts.uncommitted else ""
            yield f"- `{path}` - {times}{state}"
    for path in facts.uncommitted:
        if path not in named and not _is_bookkeeping(path):
            yield f"- `{_path(path, root)}` - uncommitted"
    for value in reversed(facts.state.commits if facts.state else []):
        yield f"- {keep(f'Committed {value.text}', _LINE_MAX)}"


def _is_bookkeeping(path: str) -> bool:
    """Return True for a file about the work that is not part of the work."""
    return path.startswith(".beads/") or bool(_METADATA.fullmatch(path))


def _path(path: str, root: str) -> str:
    return keep(path.removeprefix(f"{root}/"), _LINE_MAX).replace("`", "'")


def _learnings(facts: RecordFacts) -> list[str]:
    if facts.contract is None:
        return []
    risks = facts.contract.items("Risks", LEARNINGS_MAX)
    # The Context section already states the git status.
    risks = [risk for risk in risks if not _UNSAVED.match(risk)]
    items = [*facts.contract.items("Gotchas", LEARNINGS_MAX), *risks]
    done = facts.contract.items("Done", LEARNINGS_MAX)
    said = [item for item in done if not item.startswith(("Committed ", "Edited ", "Answered: "))]
    return [f"- {item}" for item in dict.fromkeys([*items, *said])]


def upcoming(facts: RecordFacts) -> list[str]:
    """Return the next steps: those of the session, then the open tasks."""
    said = facts.contract.items("Next", STEPS_MAX) if facts.contract else []
    blocked = [f"{task} (blocked)" for task in facts.blocked]
    planned = [*facts.current, *facts.open, *blocked]
    return list(dict.fromkeys([*said, *planned]))[:STEPS_MAX]


def _worker(worker: ParallelWorker) -> str:
    parts = [
        worker.status + (", stale" if worker.stale else ""),
        worker.task,
        worker.bead_id,
        f"in {worker.worktree}" if worker.worktree else "",
        f"owns {', '.join(f'`{path}`' for path in worker.files)}" if worker.files else "",
        f"since {worker.since}" if worker.since else "",
    ]
    return keep(f"- {worker.name}: {'; '.join(part for part in parts if part)}", 2 * _LINE_MAX)


def note(facts: RecordFacts, section: int, path: str) -> str:
    """Return the note for Beads, in the specified six lines."""
    done, percent = facts.progress.done, facts.progress.percent
    tasks = f"Tasks 1-{done}" if done else NONE
    steps = upcoming(facts)
    current = [*facts.current, *_todos_in_progress(facts)]
    lines = [
        f"COMPLETED: {tasks} ({percent}% of track)",
        f"KEY DECISIONS: {'; '.join(decisions(facts)) or NONE}",
        f"IN PROGRESS: {current[0] if current else NONE}",
        f"NEXT: {next((step for step in steps if step not in current[:1]), NONE)}",
        f"BLOCKER: {_blocker(facts) or '; '.join(facts.blocked[:2]) or NONE}",
        f"HANDOFF: Section {section} saved at {path}",
    ]
    return "\n".join(keep(line, 2 * _LINE_MAX) for line in lines)


def _todos_in_progress(facts: RecordFacts) -> list[str]:
    state = facts.state
    todos = [todo for todo in state.todos if todo.status == "in_progress"] if state else []
    return [line for todo in todos if (line := prose(todo.value.text))]


def _blocker(facts: RecordFacts) -> str:
    return facts.contract.escalations[0] if facts.contract and facts.contract.escalations else ""
