"""Which project a caller means."""

import os
import re
from collections.abc import Collection
from typing import Any

from handoff.common.errors import ChoiceNeededError, HandoffError
from handoff.common.paths import CHECKPOINT
from handoff.common.safe_parsing import load_json
from handoffd.agents.agent import is_absolute
from handoffd.agents.registry import agent_of
from handoffd.api.method import InProject
from handoffd.context import Context
from handoffd.projects.lanes import choose
from handoffd.projects.registry import Project
from handoffd.projects.stored_sessions import state_of
from handoffd.session.state import SessionState
from handoffd.store.state import StoredSession

# How much of a session's id names it, and how many are named where more than one begins so.
PREFIX_MIN = 6
SHOWN_MAX = 8
_HALVES = re.compile("[\ud800-\udfff]")


def ambiguous(name: str, found: Collection[str]) -> ChoiceNeededError:
    return ChoiceNeededError(
        f"{name} is the beginning of {len(found)} sessions.",
        "Give more of one: " + ", ".join(sorted(found)[:SHOWN_MAX]),
    )


def directory_of(params: InProject) -> str:
    """Return the directory that a caller is in, or names."""
    return os.path.join(params.cwd, os.path.expanduser(params.project or ""))


def named_project(context: Context, params: InProject, *, create: bool = False) -> Project:
    """Return the project a caller names; asking about a directory leaves no trace of it."""
    directory = directory_of(params)
    project = _project(context, directory, create=False)
    if not project.id and not project.root.exists:
        raise HandoffError(f"There is no directory {directory}.", "Name another one.")
    return _project(context, directory, create=create)


def _project(context: Context, directory: str, *, create: bool) -> Project:
    project = context.projects.at(directory, create=create)
    if not project.id and os.path.lexists(f"{project.root.path}/{CHECKPOINT}"):
        return context.projects.at(directory)
    return project


def session_at(context: Context, project: Project, name: str) -> SessionState | None:
    """Return the session a caller means: the one it names, or the one at work in the project."""
    if name:
        stored = context.sessions.session(name) or _beginning_so(context, name)
        return state_of(stored) if stored else None
    lanes = context.project_states.lanes(project.id)
    live = [lane for lane in lanes if lane.live and lane.state.prompts and not lane.state.headless]
    if len(live) > 1:
        names = ", ".join(lane.state.session_id for lane in live)
        raise ChoiceNeededError(
            f"{len(live)} sessions are live here.", f"Name one: --session {names}"
        )
    main = choose(lanes)
    return main.state if main and main.live else None


def meant_session(
    context: Context, project: Project, name: str, track: str = ""
) -> SessionState | None:
    """Return the session a caller means, also one of which nothing is known yet.

    Of several that are live, the one that works on the track; else the one that spoke last.
    """
    try:
        return session_at(context, project, name) or (SessionState(name) if name else None)
    except ChoiceNeededError:
        if name:
            raise
    live = [lane.state for lane in context.project_states.lanes(project.id) if lane.live]
    track_of = context.core.ledger.track_of
    bound = [state for state in live if track and track_of(state.session_id) == track]
    return next(iter(bound or live), None)


def _beginning_so(context: Context, name: str) -> StoredSession | None:
    """Return the one session whose id begins so."""
    found = context.sessions.session_ids_like(name) if len(name) >= PREFIX_MIN else set()
    if len(found) > 1:
        raise ambiguous(name, found)
    return context.sessions.session(next(iter(found))) if found else None


def hook_fields(text: str) -> dict[str, Any]:
    """Read the JSON that Claude Code gives a hook; anything else is nothing."""
    try:
        data: Any = load_json(text) if text.strip() else {}
    except ValueError:
        return {}
    return _encodable(data) if isinstance(data, dict) else {}


def _encodable(value: Any) -> Any:
    """Replace the halves of characters that JSON can name, and that nothing can store."""
    if isinstance(value, str):
        return _HALVES.sub("\ufffd", value)
    if isinstance(value, dict):
        return {_encodable(key): _encodable(item) for key, item in value.items()}
    return [_encodable(item) for item in value] if isinstance(value, list) else value


def texts_of(fields: dict[str, Any]) -> dict[str, str]:
    return {key: value for key, value in fields.items() if isinstance(value, str)}


def hook_project(
    context: Context, cwd: str, hook: dict[str, str], environment: dict[str, str]
) -> Project:
    """Return a hook's project: by session id, then the agent's variable, then cwd."""
    agent = agent_of(hook.get("transcript_path", ""))
    session_id = hook.get("session_id") or environment.get(agent.session_variable) or ""
    stored = context.sessions.session(session_id) if session_id else None
    if stored is not None and stored.project_id:
        known = context.projects.by_id(stored.project_id)
        if known is not None:
            return known
    directory = environment.get(agent.project_variable) or hook.get("cwd") or cwd
    return _project(context, directory if is_absolute(directory) else cwd, create=False)


def learn_root(context: Context, transcript_path: str) -> None:
    """Follow a directory of transcripts that a hook named and we did not know."""
    directory = agent_of(transcript_path).root_of(transcript_path)
    if not directory or directory in context.daemon.transcript_watcher.roots:
        return
    root = os.path.realpath(directory)
    if (
        os.path.isdir(root)
        and os.stat(root).st_uid == os.getuid()
        and root not in context.daemon.transcript_watcher.roots
    ):
        context.core.learn_transcript_root(root)
        context.daemon.transcript_watcher.set_roots(
            [*context.daemon.transcript_watcher.roots, root]
        )
