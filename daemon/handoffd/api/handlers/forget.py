"""forget: erase all data derived from a project or a session."""

import os
from dataclasses import asdict
from typing import Any

from pydantic import Field

from handoff.common.errors import HandoffError
from handoff.common.paths import home
from handoffd.api.method import Directory, InProject, Method, MethodReply, Params, Path, Send
from handoffd.api.resolve import PREFIX_MIN, ambiguous, named_project
from handoffd.api.terminal_text import Style, count, shorten_path
from handoffd.context import Context
from handoffd.privacy import erasure
from handoffd.privacy.erasure import ErasureReport, ErasureTarget
from handoffd.projects.registry import Project

TRANSCRIPTS = (
    "The transcripts are Claude Code's own and are left; what they say so far stays unknown."
)
_ROWS = {
    "settings": "value that you set",
    "checkpoints": "note on the checkpoint",
    "contracts": "note on a handoff",
    "read_marks": "read mark",
    "triggers": "trigger",
    "seen": "mark of what was seen of it",
    "session_tracks": "note on a session's track",
    "outbox": "note or mail to be sent",
    "thread_uses": "note on a thread that was used here",
    "item_marks": "open item that you closed",
    "shown_items": "note on the list that was shown",
}
_FILES = {
    "checkpoint": "checkpoint",
    "renewed": "checkpoint, written anew:",
    "handoffs": "handoff",
    "briefs": "brief",
    "backups": "backup",
}


class ForgetParams(Params):
    cwd: Directory = Field(default="/", description="the caller's directory")
    target: Path | None = Field(default=None, description="a session, or a project's directory")
    dry_run: bool = Field(default=False, description="say what would go, and change nothing")


async def handle(context: Context, params: ForgetParams, _send: Send) -> MethodReply:
    await context.daemon.transcript_watcher.rescan()
    target, note = _meant(context, params)
    if params.dry_run:
        account = await erasure.draw_up(context, target)
    else:
        account = await erasure.forget(context, target)
        await erasure.scrub(context)
    return MethodReply(_described(target, account, note, dry_run=params.dry_run))


def _meant(context: Context, params: ForgetParams) -> tuple[ErasureTarget, str]:
    """Return the target of a request, and a note if it could be understood otherwise."""
    name = params.target or ""
    directory = os.path.join(params.cwd, os.path.expanduser(name))
    sessions = _sessions_like(context, name)
    if not name or "/" in name or os.path.isdir(directory) or not sessions:
        note = f"{name} is also the beginning of a session's id; the directory is meant."
        return ErasureTarget(_project(context, params)), note if sessions else ""
    if len(sessions) > 1:
        raise ambiguous(name, sessions)
    return _session(context, sessions.pop()), ""


def _sessions_like(context: Context, name: str) -> set[str]:
    """Return the session with this id, or else the sessions whose id begins with it."""
    if len(name) < PREFIX_MIN:
        return set()
    known = {entry.cursor.session_id for entry in context.daemon.transcript_reader.entries.values()}
    known |= context.daemon.state.session_ids_like(name)
    if name in known or context.core.contract(name):
        return {name}
    return {session_id for session_id in known if session_id.startswith(name)}


def _project(context: Context, params: ForgetParams) -> Project:
    try:
        return named_project(
            context,
            InProject(cwd=params.cwd, project=params.target),
            create=not params.dry_run,
        )
    except HandoffError as problem:
        hint = (
            f"Name a directory of a project, or at least {PREFIX_MIN} characters of a session's "
            "id: handoff sessions"
        )
        raise HandoffError(problem.title, hint) from None


def _session(context: Context, session_id: str) -> ErasureTarget:
    stored, left = context.daemon.state.session(session_id), context.core.contract(session_id)
    project_id = (stored and stored.project_id) or (left and left.project_id)
    project_id = project_id or context.core.marked_project(session_id)
    project = context.projects.by_id(project_id) if project_id else None
    return ErasureTarget(project, frozenset({session_id}), whole=False)


def _described(
    target: ErasureTarget, account: ErasureReport, note: str, *, dry_run: bool
) -> dict[str, Any]:
    return {
        "project": target.project.root.path if target.project else None,
        "session": None if target.whole else next(iter(target.sessions)),
        "dry_run": dry_run,
        "nothing": not account,
        "note": note or None,
        **asdict(account),
        "sessions": sorted(account.sessions),
        "left": [{"path": path, "why": why} for path, why in account.left.items()],
    }


def render(data: dict[str, Any], style: Style) -> str:
    what = f"session {data['session']}" if data["session"] else _path(data["project"])
    lines = [data["note"]] if data["note"] else []
    if data["nothing"]:
        lines.append(f"Nothing is known of {what}.")
    else:
        lines.append(style.bold(f"{'Would erase' if data['dry_run'] else 'Erased'} of {what}:"))
        lines += _erased(data)
    if data["left"]:
        lines += ["Left:", *(f"  {_path(item['path'])} ({item['why']})" for item in data["left"])]
    return "\n".join([*lines, TRANSCRIPTS]) + "\n"


def _erased(data: dict[str, Any]) -> list[str]:
    lines = []
    if data["sessions"]:
        known = count(len(data["sessions"]), "session")
        lines.append(f"  state of {known} ({count(data['transcripts'], 'transcript')})")
    lines += [f"  {number} x {_ROWS[table]}" for table, number in data["rows"].items() if number]
    for key, label in _FILES.items():
        lines += [f"  {label} {_path(path)}" for path in data[key]]
    return lines


def _path(path: str) -> str:
    return shorten_path(path, home())


METHOD = Method("forget", ForgetParams, handle, render)
