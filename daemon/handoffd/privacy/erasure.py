"""Forgetting: erases what was derived of a project or of sessions, and sees that it stays so.

While those who write are held up, the files are removed; then the mark goes into the store and
the rows out of it, in one step, and the memory is cleared; at last the databases are written
anew without what was erased. Killed in between, the same command finds the rest. Transcripts
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
from handoffd.agents.claude_code import transcripts
from handoffd.checkpoint import checkpoint_file
from handoffd.context import Context
from handoffd.contract import handoff_directory, removal
from handoffd.contract.handoff_directory import HandoffScope
from handoffd.contract.removal import RemovalRequest
from handoffd.fs import files
from handoffd.projects.registry import Project
from handoffd.runtime import clock, log
from handoffd.session.storage import load
from handoffd.store.core import StoredContract
from handoffd.store.erasure import Forgotten

# Copies of our databases, below the state directory: nobody can pick a project out of one.
BACKUPS = ("state.db.damaged-*", "core.db.damaged-*", "core.db.mending-*")
# Where a transcript ends that is gone: should it come back, it stays silent for good.
_NO_END = 1 << 62
_EVERY = 1 << 31
_RECORDS_NAMED = 50
OLD_SESSIONS_MAX = 200
OLD_PROJECTS_MAX = 50
SETTLE_SECONDS = 1.0
SETTLE_TRIES = 600


@dataclass(frozen=True, slots=True)
class ErasureTarget:
    """What is meant: sessions of a project, or, if none is named, all of it.

    With `before`, only what is older and only handoffs that we wrote ourselves.
    """

    project: Project | None
    sessions: frozenset[str] = frozenset()
    before: float | None = None
    whole: bool = True


@dataclass(slots=True)
class ErasureReport:
    """What is, or would be, erased; what is written anew; what is left, and why."""

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


# What would go


async def draw_up(context: Context, target: ErasureTarget) -> ErasureReport:
    """Find all that is to be erased; changes nothing."""
    wanted = _wanted(context, target)
    sessions = set(wanted.sessions)
    if target.before is None:
        found = await asyncio.to_thread(removal.find, context.contract_writer.base, wanted)
    else:
        found = removal.RemovalPaths(_our_old(context, sessions, target.before))
    account = ErasureReport(sessions, handoffs=found.meant)
    account.left = dict.fromkeys(found.unclear, "it does not say whose it is")
    account.transcripts = len(context.daemon.transcript_reader.transcripts_of(sessions))
    account.backups = _backups()
    if target.project is not None:
        _draw_up_checkpoint(context, target.project, account, whole=target.whole)
    if target.before is None:
        account.left |= _records(context, target)
    account.rows = context.core.count_rows(_forgotten(context, target, account, {}))
    return account


def _records(context: Context, target: ErasureTarget) -> dict[str, str]:
    """Return the track records that were made: they are the project's own documents."""
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


def _wanted(context: Context, target: ErasureTarget) -> RemovalRequest:
    """Gather the sessions that are meant, and where they worked."""
    project, root = target.project, target.project.root.path if target.project else ""
    project_id = project.id if project else ""
    stored = [kept for name in target.sessions if (kept := context.daemon.state.session(name))]
    contracts = [left for name in target.sessions if (left := context.core.contract(name))]
    if target.whole and project_id:
        stored = context.daemon.state.sessions(project_id, _EVERY)
        contracts = context.core.contracts_of(project_id)
    cwds = {load(found.fold).cwd for found in stored} | {root}
    sessions = {found.session_id for found in stored} | target.sessions
    sessions |= {found.session_id for found in contracts}
    places = {os.path.dirname(found.path) for found in contracts}
    for entry in context.daemon.transcript_reader.transcripts_of(target.sessions).values():
        # Claude Code names a project's directory nearly as the contract does.
        name = os.path.basename(os.path.dirname(entry.cursor.path))
        places.add(f"{context.contract_writer.base}/{name}")
    cwds.discard("")
    place = HandoffScope(root, root, tuple(sorted(cwds))) if target.whole and root else None
    return RemovalRequest(frozenset(sessions), frozenset(cwds), frozenset(places), place)


def _our_old(context: Context, sessions: Collection[str], before: float) -> list[str]:
    """Return the old handoffs that we wrote ourselves for sessions."""
    left = [found for name in sessions if (found := context.core.contract(name))]
    old = [found for found in left if 0 < _modified(found.path) < before]
    return [found.path for found in old if _is_all_ours(found)]


def _is_all_ours(left: StoredContract) -> bool:
    """Tell a handoff in which nobody else has written a word."""
    handoff = handoff_directory.read(left.path)
    return handoff is not None and handoff.text == left.written


def _modified(path: str) -> float:
    try:
        return os.lstat(path).st_mtime
    except OSError:
        return 0.0


def _backups() -> list[str]:
    directory = glob.escape(client_paths.state_dir())
    return sorted(path for name in BACKUPS for path in glob.glob(f"{directory}/{name}"))


def _draw_up_checkpoint(
    context: Context, project: Project, account: ErasureReport, *, whole: bool
) -> None:
    root = project.root.path
    directory = f"{root}/{checkpoint_file.DIRECTORY}"
    brief = client_paths.brief_file(root)
    account.briefs = [brief] if os.path.lexists(brief) else []
    try:
        names = checkpoint_file.remains(root)
    except (OSError, HandoffError) as problem:
        account.left[directory] = str(problem).splitlines()[0]
        return
    if not whole and _others_remain(context, project, account.sessions):
        copies = [name for name in names if name.startswith(checkpoint_file.UNREADABLE)]
        path = f"{directory}/{checkpoint_file.NAME}"
        if checkpoint_file.NAME in names and _is_unreadable(root):
            account.left[path] = "it cannot be read, so nobody can tell what of it is the session's"
        elif checkpoint_file.NAME in names:
            account.renewed.append(path)
        names = copies
        if context.core.settings(project.id):
            account.left["the values that you set"] = "they are the project's"
    account.checkpoint = [f"{directory}/{name}" for name in names]
    if context.project_states.active(project).git.tracked and checkpoint_file.NAME in names:
        account.left["git's history"] = "git tracks handoff.yaml, and remembers it"


def _is_unreadable(root: str) -> bool:
    try:
        return bool(checkpoint_file.load(root).problem)
    except HandoffError:
        return True


def _others_remain(context: Context, project: Project, gone: Collection[str]) -> bool:
    """Tell whether a project has something to say without the sessions that go."""
    if not project.id:
        return False
    known = context.daemon.state.session_ids(project.id)
    return bool(known - set(gone) or context.core.settings(project.id))


# Doing it


async def forget(context: Context, target: ErasureTarget) -> ErasureReport:
    """Erase; what is written from then on is heard, and begins with nothing known."""
    async with _held(context, target.project):
        account = await draw_up(context, target)
        problems = await asyncio.to_thread(_erase_files, target, account)
        _take_off(account, problems)
        _drop(context, target, account)
        if account.renewed and target.project is not None:
            await _renew(context, target.project, account)
    context.projects.forget_cached()  # its directory may have been the marker
    if account.backups:
        context.daemon.state_rebuilt = ""
    if target.project is not None and not target.whole:
        context.project_states.touch(target.project.id)
    return account


async def scrub(context: Context) -> None:
    """Leave no erased byte in the databases and their logs."""
    await context.wipe_core()
    context.daemon.state.scrub()


@asynccontextmanager
async def _held(context: Context, project: Project | None) -> AsyncIterator[None]:
    """Wait for whoever is writing what was true before, and let nobody begin."""
    async with context.contract_writer.busy:
        if project is None:
            yield
            return
        active = context.project_states.active(project)
        async with context.project_states.turn(active), active.file.lock:
            yield


def _drop(context: Context, target: ErasureTarget, account: ErasureReport) -> None:
    """Mark, erase the rows and clear the memory: in one go, so that nothing comes between."""
    if target.whole and target.project is not None:
        account.sessions |= context.daemon.state.session_ids(target.project.id)
    ends = _ends(context, account.sessions)
    account.transcripts = len(ends)
    account.rows = context.policy.forget(_forgotten(context, target, account, ends))
    with context.daemon.state.batch():
        context.daemon.transcript_reader.start_anew(account.sessions)
        context.daemon.state.sweep()
    for session_id in account.sessions:
        context.daemon.session_liveness.forget(session_id)
    if target.project is not None:
        context.project_states.forget(target.project)
        context.daemon.trigger_detector.forget(target.project.id)


def _forgotten(
    context: Context, target: ErasureTarget, account: ErasureReport, ends: dict[str, int]
) -> Forgotten:
    project_id = target.project.id if target.project else ""
    contracts = [found for name in account.sessions if (found := context.core.contract(name))]
    kept = target.before is not None
    return Forgotten(
        project_id,
        account.sessions,
        whole=target.whole and bool(project_id),
        until=target.before or clock.wall(),
        # Until it is written anew, what we wrote last must not be taken for a person's.
        checkpoint=not account.renewed,
        ends=ends,
        paths={
            *account.handoffs,
            *(() if kept else (found.path for found in contracts)),
            *_records(context, target),
        },
    )


def _ends(context: Context, sessions: set[str]) -> dict[str, int]:
    """Return the present ends of the sessions' transcripts, their sub-agents' included."""
    entries = context.daemon.transcript_reader.transcripts_of(sessions)
    for name in sessions & entries.keys():
        # The rescan leaves out the sub-agents of old sessions.
        found = transcripts.at(entries[name].cursor.path)
        for agent in transcripts.agents_of(found) if found else ():
            context.daemon.transcript_reader.found(agent)
    return {
        name: _size(entry.cursor.path)
        for name, entry in context.daemon.transcript_reader.transcripts_of(sessions).items()
    }


def _size(path: str) -> int:
    try:
        return os.stat(path, follow_symlinks=False).st_size
    except OSError:
        return _NO_END


def _erase_files(target: ErasureTarget, account: ErasureReport) -> dict[str, str]:
    """Remove the files; returns what could not be removed, and why."""
    problems = removal.erase(account.handoffs)
    if target.project is not None and account.checkpoint:
        try:
            names = [os.path.basename(path) for path in account.checkpoint]
            if checkpoint_file.erase(target.project.root.path, names):
                account.checkpoint.append(os.path.dirname(account.checkpoint[0]))
        except (OSError, HandoffError) as problem:
            problems |= dict.fromkeys(account.checkpoint, str(problem).splitlines()[0])
    for path in (*account.briefs, *account.backups):
        try:
            _remove(path)
        except OSError as problem:
            problems[path] = str(problem.strerror)
    return problems


def _remove(path: str) -> None:
    directory, name = os.path.split(path)
    with files.directory(directory) as handle:
        files.remove(handle, name)


def _take_off(account: ErasureReport, problems: dict[str, str]) -> None:
    """Say of what could not be erased that it is left."""
    account.left |= problems
    for listed in (account.checkpoint, account.handoffs, account.briefs, account.backups):
        listed[:] = [path for path in listed if path not in problems]


async def _renew(context: Context, project: Project, account: ErasureReport) -> None:
    try:
        await context.daemon.checkpoint_writer.renew(context.project_states.active(project))
    except (OSError, HandoffError) as problem:
        account.left[account.renewed.pop()] = str(problem).splitlines()[0]


# What is old


async def forget_old(context: Context) -> None:
    """Forget sessions, and the checkpoints of projects, that are older than is to be kept."""
    days = context.config.current.privacy.retention_days
    if not days:
        return
    if not await _settled(context):
        log.get().info("retention_postponed")
        return
    limit = clock.wall() - days * clock.DAY_SECONDS
    # Whole projects first: a checkpoint that is written anew for the sake of a session is young.
    projects = _old_projects(context, limit)
    targets = projects[:OLD_PROJECTS_MAX] + _old_sessions(context, limit, projects)
    done = [await forget(context, target) for target in targets]
    if done:
        await scrub(context)
    log.get().info(
        "retention",
        sessions=sum(len(account.sessions) for account in done),
        handoffs=sum(len(account.handoffs) for account in done),
        checkpoints=sum(bool(account.checkpoint) for account in done),
        left=sum(len(account.left) for account in done),
    )


async def _settled(context: Context) -> bool:
    """Wait until everything is read: what is not may be young."""
    for _ in range(SETTLE_TRIES):
        if context.daemon.settled:
            return True
        await asyncio.sleep(SETTLE_SECONDS)
    return False


def _old_sessions(
    context: Context, limit: float, besides: list[ErasureTarget]
) -> list[ErasureTarget]:
    """Return the sessions without activity since a time, by project; some projects go whole."""
    groups: dict[str, set[str]] = {}
    whole = {target.project.id for target in besides if target.project}
    for stored in context.daemon.state.sessions_before(limit, OLD_SESSIONS_MAX):
        name = stored.session_id
        file = context.daemon.transcript_reader.entries.get(name) or context.daemon.state.cursor(
            name
        )
        # Of one in which nothing was heard we know no time but the file's, be it here or away.
        if stored.last_seconds or file is None or 0 < file.mtime_ns / 1e9 < limit:
            groups.setdefault(stored.project_id or "", set()).add(stored.session_id)
    return [
        ErasureTarget(context.projects.by_id(project_id), frozenset(sessions), limit, whole=False)
        for project_id, sessions in groups.items()
        if project_id not in whole
    ]


def _old_projects(context: Context, limit: float) -> list[ErasureTarget]:
    """Return the projects with an old checkpoint, or brief alone, and no session since a time."""
    active = context.daemon.state.active_projects(limit)
    found = []
    for project_id, root in context.core.projects():
        kept = _modified(f"{root}/{client_paths.CHECKPOINT}")
        kept = kept or _modified(client_paths.brief_file(root))
        if project_id not in active and 0 < kept < limit:
            found.append(ErasureTarget(context.projects.by_id(project_id), before=limit))
    return found
