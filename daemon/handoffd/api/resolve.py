"""Which project a caller means."""

import json
import os
from collections.abc import Collection
from typing import Any

from handoff.errors import ChoiceNeededError, HandoffError
from handoff.paths import CHECKPOINT
from handoffd.api.method import InProject
from handoffd.parts import Parts
from handoffd.projects import Project

# How much of a session's id names it, and how many are named where more than one begins so.
PREFIX_MIN = 6
SHOWN_MAX = 8


def ambiguous(name: str, found: Collection[str]) -> ChoiceNeededError:
    return ChoiceNeededError(
        f"{name} is the beginning of {len(found)} sessions.",
        "Give more of one: " + ", ".join(sorted(found)[:SHOWN_MAX]),
    )


def directory_of(params: InProject) -> str:
    """Return the directory that a caller is in, or names."""
    return os.path.join(params.cwd, os.path.expanduser(params.project or ""))


def named_project(parts: Parts, params: InProject, *, create: bool = False) -> Project:
    """Return the project a caller names; asking about a directory leaves no trace of it."""
    directory = directory_of(params)
    project = _project(parts, directory, create=False)
    if not project.id and not project.root.exists:
        raise HandoffError(f"There is no directory {directory}.", "Name another one.")
    return _project(parts, directory, create=create)


def _project(parts: Parts, directory: str, *, create: bool) -> Project:
    project = parts.projects.at(directory, create=create)
    if not project.id and os.path.lexists(f"{project.root.path}/{CHECKPOINT}"):
        return parts.projects.at(directory)
    return project


def hook_fields(text: str) -> dict[str, str]:
    """Read the JSON that Claude Code gives a hook; anything else is nothing."""
    try:
        data: Any = json.loads(text) if text.strip() else {}
    except ValueError:
        return {}
    if not isinstance(data, dict):
        return {}
    return {key: value for key, value in data.items() if isinstance(value, str)}


def hook_project(
    parts: Parts, cwd: str, hook: dict[str, str], environment: dict[str, str]
) -> Project:
    """Return a hook's project: by session id, then CLAUDE_PROJECT_DIR, then cwd."""
    session_id = hook.get("session_id") or environment.get("CLAUDE_CODE_SESSION_ID") or ""
    stored = parts.state.session(session_id) if session_id else None
    if stored is not None and stored.project_id:
        known = parts.projects.by_id(stored.project_id)
        if known is not None:
            return known
    directory = environment.get("CLAUDE_PROJECT_DIR") or hook.get("cwd") or cwd
    return _project(parts, directory if directory.startswith("/") else cwd, create=False)


def learn_root(parts: Parts, transcript_path: str) -> None:
    """Follow a Claude config directory that a hook named and we did not know."""
    directory = os.path.dirname(os.path.dirname(transcript_path))
    if not transcript_path.endswith(".jsonl") or os.path.basename(directory) != "projects":
        return
    if directory in parts.lookout.roots:
        return
    root = os.path.realpath(directory)
    if (
        os.path.isdir(root)
        and os.stat(root).st_uid == os.getuid()
        and root not in parts.lookout.roots
    ):
        parts.core.learn_transcript_root(root)
        parts.lookout.set_roots([*parts.lookout.roots, root])
