"""Forget: erase all data derived from a project or from sessions, and make sure it stays erased.

While all writers wait, the files are removed. Then, in one step, the mark is entered into the
store, the rows are deleted and the memory is cleared. At last the databases are rewritten without
the erased bytes. If the process is killed in between, the same command finds the rest. Transcripts
are Claude Code's own: they are never touched.
"""

import asyncio
import glob
import os
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from handoff.common import paths as client_paths
from handoff.common.errors import HandoffError
from handoffd.agents.registry import agent_of
from handoffd.checkpoint import checkpoint_file
from handoffd.context import Context
from handoffd.contract import handoff_directory, removal
from handoffd.contract.handoff_directory import HandoffScope
from handoffd.contract.removal import RemovalRequest
from handoffd.fs import files
from handoffd.projects.registry import Project
from handoffd.projects.stored_sessions import state_of
from handoffd.runtime import clock, log
from handoffd.store.core import StoredContract
from handoffd.store.erasure import Forgotten

# Copies of our databases in the state directory: no single project can be erased from a copy.
BACKUPS = ("state.db.damaged-*", "core.db.damaged-*", "core.db.mending-*")
# The end of a deleted transcript: if it comes back, it stays silent forever.
_NO_END = 1 << 62
_NO_LIMIT = 1 << 31
_RECORDS_NAMED = 50
OLD_SESSIONS_MAX = 200
OLD_PROJECTS_MAX = 50
SETTLE_SECONDS = 1.0
SETTLE_TRIES = 600


@dataclass(frozen=True, slots=True)
class ErasureTarget:
    """The target of an erasure: sessions of a project or, without `sessions`, the whole project.

    With `before`, only older data, and only handoffs that we wrote ourselves.
    """

    project: Project | None
    sessions: frozenset[str] = frozenset()
    before: float | None = None
    whole: bool = True


@dataclass(slots=True)
class ErasureReport:
    """The data that is (or would be) erased, the files rewritten, and those left, with reasons."""

    sessions: set[str] = field(default_factory=set)
    transcripts: int = 0
    rows: dict[str, int] = field(default_factory=dict)
    checkpoint: list[str] = field(default_factory=list)
    handoffs: list[str] = field(default_factory=list)
    briefs: list[str] = field(default_factory=list)
    backups: list[str] = field(default_factory=list)
    renewed: list[str] = field(default_factory=list)
    left: dict[str, str] = field(default_factory=dict)

    @property
    def files(self) -> list[str]:
        return [*self.checkpoint, *self.handoffs, *self.briefs, *self.backups]

    def __bool__(self) -> bool:
        return bool(self.sessions or self.files or any(self.rows.values()))


# Finding the data


async def draw_up(context: Context, target: ErasureTarget) -> ErasureReport:
    """Return all data that is to be erased; change nothing."""
    request = _removal_request(context, target)
    sessions = set(request.sessions)
    if target.before is None:
        found = await asyncio.to_thread(removal.find, context.contract_writer.base, request)
    else:
        found = removal.RemovalPaths(_our_old_handoffs(context, sessions, target.before))
    report = ErasureReport(sessions, handoffs=found.meant)
    report.left = dict.fromkeys(found.unclear, "it does not say whose it is")
    report.transcripts = len(context.daemon.transcript_reader.transcripts_of(sessions))
    report.backups = _backups()
    if target.project is not None:
        _add_checkpoint(context, target.project, report, whole=target.whole)
    if target.before is None:
        report.left |= _records(context, target)
    report.rows = context.core.count_rows(_forgotten(context, target, report, {}))
    return report


def _records(context: Context, target: ErasureTarget) -> dict[str, str]:
    """Return the track records that we made, and why they stay: they are the project's own."""
    if target.project is None:
        return {}
    made = [
        f"{target.project.root.path}/{firing.outcome['file']}"
        for firing in context.core.ledger.recent(target.project.id, _RECORDS_NAMED)
        if firing.outcome and firing.outcome.get("file")
        if target.whole or firing.session_id in target.sessions
    ]
    why = "a track record is the project's own; its index and metadata.json name it"
    return {path: why for path in made if os.path.lexists(path)}


def _removal_request(context: Context, target: ErasureTarget) -> RemovalRequest:
    """Return the sessions of a target, and the directories in which they worked."""
    project, root = target.project, target.project.root.path if target.project else ""
    project_id = project.id if project else ""
    stored = [kept for name in target.sessions if (kept := context.daemon.state.session(name))]
    contracts = [left for name in target.sessions if (left := context.core.contract(name))]
    if target.whole and project_id:
        stored = context.daemon.state.sessions(project_id, _NO_LIMIT)
        contracts = context.core.contracts_of(project_id)
    cwds = {state_of(found).cwd for found in stored} | {root}
    sessions = {found.session_id for found in stored} | target.sessions
    sessions |= {found.session_id for found in contracts}
    places = {os.path.dirname(found.path) for found in contracts}
    for entry in context.daemon.transcript_reader.transcripts_of(target.sessions).values():
        # Claude Code names a project's directory nearly like the handoff directory.
        name = os.path.basename(os.path.dirname(entry.cursor.path))
        places.add(f"{context.contract_writer.base}/{name}")
    cwds.discard("")
    place = HandoffScope(root, root, tuple(sorted(cwds))) if target.whole and root else None
    return RemovalRequest(frozenset(sessions), frozenset(cwds), frozenset(places), place)


def _our_old_handoffs(context: Context, sessions: Collection[str], before: float) -> list[str]:
    """Return the old handoffs of sessions that we wrote and that no other author has edited."""
    contracts = [found for name in sessions if (found := context.core.contract(name))]
    old = [found for found in contracts if 0 < _modified(found.path) < before]
    return [found.path for found in old if _is_unedited(found)]


def _is_unedited(contract: StoredContract) -> bool:
    """Return True if a handoff still has exactly the text that we wrote."""
    handoff = handoff_directory.read(contract.path)
    return handoff is not None and handoff.text == contract.written


def _modified(path: str) -> float:
    try:
        return os.lstat(path).st_mtime
    except OSError:
        return 0.0


def _backups() -> list[str]:
    directory = glob.escape(client_paths.state_dir())
    return sorted(path for name in BACKUPS for path in glob.glob(f"{directory}/{name}"))


def _add_checkpoint(
    context: Context, project: Project, report: ErasureReport, *, whole: bool
) -> None:
    root = project.root.path
    directory = f"{root}/{checkpoint_file.DIRECTORY}"
    brief = client_paths.brief_file(root)
    report.briefs = [brief] if os.path.lexists(brief) else []
    try:
        names = checkpoint_file.remains(root)
    except (OSError, HandoffError) as problem:
        report.left[directory] = str(problem).splitlines()[0]
        return
    if not whole and _others_remain(context, project, report.sessions):
        copies = [name for name in names if name.startswith(checkpoint_file.UNREADABLE)]
        path = f"{directory}/{checkpoint_file.NAME}"
        if checkpoint_file.NAME in names and _is_unreadable(root):
            report.left[path] = "it cannot be read, so nobody can tell what of it is the session's"
        elif checkpoint_file.NAME in names:
            report.renewed.append(path)
        names = copies
        if context.core.settings(project.id):
            report.left["the values that you set"] = "they are the project's"
    report.checkpoint = [f"{directory}/{name}" for name in names]
    if context.project_states.active(project).git.tracked and checkpoint_file.NAME in names:
        report.left["git's history"] = "git tracks handoff.yaml, and remembers it"


def _is_unreadable(root: str) -> bool:
    try:
        return bool(checkpoint_file.load(root).problem)
    except HandoffError:
        return True


def _others_remain(context: Context, project: Project, gone: Collection[str]) -> bool:
    """Return True if a project has other sessions or settings than the erased sessions."""
    if not project.id:
        return False
    known = context.daemon.state.session_ids(project.id)
    return bool(known - set(gone) or context.core.settings(project.id))


# Erasing it


async def forget(context: Context, target: ErasureTarget) -> ErasureReport:
    """Erase; records written from then on are read, and start from an empty state."""
    async with _writers_stopped(context, target.project):
        report = await draw_up(context, target)
        problems = await asyncio.to_thread(_erase_files, target, report)
        _move_to_left(report, problems)
        _erase_rows_and_memory(context, target, report)
        if report.renewed and target.project is not None:
            await _rewrite_checkpoint(context, target.project, report)
    context.projects.forget_cached()  # the erased directory may have been the project's marker
    await context.daemon.brief_writer.drop_telling(report.sessions)
    if report.backups:
        context.daemon.state_rebuild.note = ""
    if target.project is not None and not target.whole:
        context.project_states.touch(target.project.id)
    return report


async def scrub(context: Context) -> None:
    """Remove erased bytes from the databases and their logs."""
    await context.daemon.core_keeper.wipe()
    context.daemon.state.scrub()


@asynccontextmanager
async def _writers_stopped(context: Context, project: Project | None) -> AsyncIterator[None]:
    """Wait for writers that still write the old state, and let no writer begin."""
    async with context.contract_writer.busy:
        if project is None:
            yield
            return
        active = context.project_states.active(project)
        async with context.project_states.turn(active), active.file.lock:
            yield


def _erase_rows_and_memory(context: Context, target: ErasureTarget, report: ErasureReport) -> None:
    """Mark, erase the rows and clear the memory, without an await, so that nothing interferes."""
    if target.whole and target.project is not None:
        report.sessions |= context.daemon.state.session_ids(target.project.id)
    ends = _ends(context, report.sessions)
    report.transcripts = len(ends)
    report.rows = context.policy.forget(_forgotten(context, target, report, ends))
    # A change of a project's view may have the words of any of its sessions.
    stored = map(context.daemon.state.session, report.sessions)
    touched = {found.project_id for found in stored if found and found.project_id}
    touched |= {target.project.id} if target.project else set()
    with context.daemon.state.batch():
        for project_id in touched:
            context.daemon.state.forget_changes(project_id, target.before)
        context.daemon.transcript_reader.start_anew(report.sessions)
        context.daemon.state.sweep()
    for session_id in report.sessions:
        context.daemon.session_liveness.forget(session_id)
        context.record_maker.forget(session_id)
    if target.project is not None:
        context.project_states.forget(target.project)
        context.daemon.trigger_detector.forget(target.project.id)


def _forgotten(
    context: Context, target: ErasureTarget, report: ErasureReport, ends: dict[str, int]
) -> Forgotten:
    project_id = target.project.id if target.project else ""
    contracts = [found for name in report.sessions if (found := context.core.contract(name))]
    kept = target.before is not None
    return Forgotten(
        project_id,
        report.sessions,
        whole=target.whole and bool(project_id),
        until=target.before or clock.wall(),
        # Until handoff.yaml is rewritten, our last text must not be taken for a person's.
        checkpoint=not report.renewed,
        ends=ends,
        paths={
            *report.handoffs,
            *(() if kept else (found.path for found in contracts)),
            *_records(context, target),
        },
    )


def _ends(context: Context, sessions: set[str]) -> dict[str, int]:
    """Return the present ends of the sessions' transcripts, including those of sub-agents."""
    entries = context.daemon.transcript_reader.transcripts_of(sessions)
    for name in sessions & entries.keys():
        # The rescan leaves out the sub-agents of old sessions.
        agent = agent_of(entries[name].cursor.path)
        found = agent.transcript_at(entries[name].cursor.path)
        for subagent in agent.subagents_of(found) if found else ():
            context.daemon.transcript_reader.note_transcript(subagent)
    return {
        name: _size(entry.cursor.path)
        for name, entry in context.daemon.transcript_reader.transcripts_of(sessions).items()
    }


def _size(path: str) -> int:
    try:
        return os.stat(path, follow_symlinks=False).st_size
    except OSError:
        return _NO_END


def _erase_files(target: ErasureTarget, report: ErasureReport) -> dict[str, str]:
    """Remove the files, and return the paths that could not be removed, with the reasons."""
    problems = removal.erase(report.handoffs)
    if target.project is not None and report.checkpoint:
        try:
            names = [os.path.basename(path) for path in report.checkpoint]
            if checkpoint_file.erase(target.project.root.path, names):
                report.checkpoint.append(os.path.dirname(report.checkpoint[0]))
        except (OSError, HandoffError) as problem:
            problems |= dict.fromkeys(report.checkpoint, str(problem).splitlines()[0])
    for path in (*report.briefs, *report.backups):
        try:
            _remove(path)
        except OSError as problem:
            problems[path] = str(problem.strerror)
    return problems


def _remove(path: str) -> None:
    directory, name = os.path.split(path)
    with files.directory(directory) as handle:
        files.remove(handle, name)


def _move_to_left(report: ErasureReport, problems: dict[str, str]) -> None:
    """Move the paths that could not be erased to `left`."""
    report.left |= problems
    for listed in (report.checkpoint, report.handoffs, report.briefs, report.backups):
        listed[:] = [path for path in listed if path not in problems]


async def _rewrite_checkpoint(context: Context, project: Project, report: ErasureReport) -> None:
    try:
        await context.daemon.checkpoint_writer.renew(context.project_states.active(project))
    except (OSError, HandoffError) as problem:
        report.left[report.renewed.pop()] = str(problem).splitlines()[0]


# Erasing old data


async def forget_old(context: Context) -> None:
    """Forget sessions, and checkpoints of projects, that are older than the retention time."""
    days = context.config.current.privacy.retention_days
    if not days:
        return
    if not await _wait_until_settled(context):
        log.get().info("retention_postponed")
        return
    limit = clock.wall() - days * clock.DAY_SECONDS
    # Whole projects first: erasing a session rewrites the checkpoint, which is young after that.
    projects = _old_projects(context, limit)
    targets = projects[:OLD_PROJECTS_MAX] + _old_sessions(context, limit, projects)
    done = [await forget(context, target) for target in targets]
    if done:
        await scrub(context)
    log.get().info(
        "retention",
        sessions=sum(len(report.sessions) for report in done),
        handoffs=sum(len(report.handoffs) for report in done),
        checkpoints=sum(bool(report.checkpoint) for report in done),
        left=sum(len(report.left) for report in done),
    )


async def _wait_until_settled(context: Context) -> bool:
    """Wait until everything is read, since unread records may be young; False if it takes long."""
    for _ in range(SETTLE_TRIES):
        if context.daemon.transcript_watcher.settled:
            return True
        await asyncio.sleep(SETTLE_SECONDS)
    return False


def _old_sessions(
    context: Context, limit: float, besides: list[ErasureTarget]
) -> list[ErasureTarget]:
    """Return the sessions without activity since a time, by project, except those in `besides`."""
    groups: dict[str, set[str]] = {}
    whole = {target.project.id for target in besides if target.project}
    for stored in context.daemon.state.sessions_before(limit, OLD_SESSIONS_MAX):
        name = stored.session_id
        file = context.daemon.transcript_reader.entries.get(name) or context.daemon.state.cursor(
            name
        )
        # A session without a timed record has no time but its file's, even if the file is gone.
        if stored.last_seconds or file is None or 0 < file.mtime_ns / 1e9 < limit:
            groups.setdefault(stored.project_id or "", set()).add(stored.session_id)
    return [
        ErasureTarget(context.projects.by_id(project_id), frozenset(sessions), limit, whole=False)
        for project_id, sessions in groups.items()
        if project_id not in whole
    ]


def _old_projects(context: Context, limit: float) -> list[ErasureTarget]:
    """Return the projects with an old checkpoint, or only an old brief, and no recent session."""
    active = context.daemon.state.active_projects(limit)
    found = []
    for project_id, root in context.core.projects():
        kept = _modified(f"{root}/{client_paths.CHECKPOINT}")
        kept = kept or _modified(client_paths.brief_file(root))
        if project_id not in active and 0 < kept < limit:
            found.append(ErasureTarget(context.projects.by_id(project_id), before=limit))
    return found
