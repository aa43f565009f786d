"""The contract's commands without a daemon: the same code, from what is on disk."""

import os
from collections.abc import Callable
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

from handoff.common.errors import HandoffError
from handoffd.api.handlers import close, escalate, review
from handoffd.api.handlers import list as list_
from handoffd.api.handlers import open as open_
from handoffd.api.handoff_results import LISTED_MAX
from handoffd.api.method import InProject, Method, shown
from handoffd.api.replay import replay
from handoffd.api.resolve import PREFIX_MIN, ambiguous, directory_of
from handoffd.api.terminal_text import Style
from handoffd.config import Config
from handoffd.contract import handoff_directory, session_file
from handoffd.contract.composition import Surroundings, account, is_worth
from handoffd.contract.contract_writer import ask_git, intending, left_of, telling, worker
from handoffd.contract.handoff_directory import Handoff, HandoffScope
from handoffd.contract.presentation import listed
from handoffd.errors import DamagedError
from handoffd.offline.method import open_core, read_params
from handoffd.projects.project_root import find_root
from handoffd.runtime import clock
from handoffd.runtime.directories import claude_dirs
from handoffd.session.state import SessionState
from handoffd.store.core import CoreStore


def run(command: str, params: dict[str, Any], style: dict[str, Any], config: Config) -> str:
    """Do what the daemon would, and show it as it would."""
    method, act = _COMMANDS[command]
    base = handoff_directory.handoffs_base(config.contract.directory)
    data = act(base, read_params(method, params), config)
    return shown(method, data, Style.model_validate(style))


def _place(params: InProject) -> HandoffScope:
    start = directory_of(params)
    root = find_root(start)
    if not root.exists:
        raise HandoffError(f"There is no directory {start}.", "Name another one.")
    return HandoffScope(os.path.realpath(start), root.path)


def _found(base: str, params: InProject, most: int) -> tuple[list[Handoff], list[dict[str, Any]]]:
    """Return handoffs and their descriptions, the newest first."""
    found = list(islice(handoff_directory.handoffs(base, _place(params)), most))
    marks: dict[str, str] = {}
    # The handoffs are files: a damaged core.db keeps nobody from reading them.
    with suppress(DamagedError), open_core() as core:
        marks = core.read_marks([handoff.path for handoff in found])
    return found, listed(found, marks, clock.wall())


def _open(base: str, params: open_.OpenParams, _config: Config) -> dict[str, Any]:
    found, items = _found(base, params, LISTED_MAX)
    data = open_.outcome(_place(params).root, found, items, framed=params.framed)
    with suppress(DamagedError), open_core() as core:
        core.mark_read(open_.stamps(data, found), clock.iso())
    return data


def _list(base: str, params: list_.ListParams, _config: Config) -> dict[str, Any]:
    return {"project": _place(params).root, "handoffs": _found(base, params, params.limit)[1]}


def _review(base: str, params: review.ReviewParams, _config: Config) -> dict[str, Any]:
    settled = session_file.settle(base, _place(params))[1] if params.settle else 0
    found, items = _found(base, params, 1)
    return review.outcome(_place(params).root, found, items, settled)


def _escalate(base: str, params: escalate.EscalateParams, _config: Config) -> dict[str, Any]:
    reason = escalate.reason_of(params.reason)
    handoff, new = session_file.escalate(base, _place(params), reason)
    return {"path": handoff.path, "reason": reason, "already": not new}


def _close(base: str, params: close.CloseParams, config: Config) -> dict[str, Any]:
    """Leave a handoff from the transcript itself, which is read anew."""
    state = transcript_state(close.named_session(params), config) or close.blank(params)
    # The session's own project, wherever it is closed from.
    root = find_root(state.cwd).path if state.records and state.cwd else _place(params).root
    given, masked = close.words_of(params)
    close.require_something(state, given)
    facts = ask_git(root)
    around = Surroundings(clock.day(), facts.uncommitted, facts.unpushed)
    if params.dry_run:
        return close.preview(account(state, root, around), state)
    mine = worker(state, root)
    tell = telling(state, mine, root, around)
    with open_core() as core:
        left = core.contract(state.session_id)
        project_id = core.project_id(root, clock.iso()) or ""
        planned = session_file.plan_close(base, mine, tell, left, given)
        if state.session_id:
            core.set_contract(intending(project_id, state, planned, left))
        done = session_file.close(base, mine, planned, left)
        if state.session_id:
            core.set_contract(left_of(project_id, state, done, ended=False))
    return close.outcome(done, state, given, masked)


def leave(core: CoreStore, project_id: str, root: str, state: SessionState, config: Config) -> str:
    """Leave a session's handoff as the daemon would; returns where it is, or nothing."""
    if config.contract.write == "none" or not is_worth(state):
        return ""
    base = handoff_directory.handoffs_base(config.contract.directory)
    facts = ask_git(root)
    mine = worker(state, root)
    tell = telling(state, mine, root, Surroundings(clock.day(), facts.uncommitted, facts.unpushed))
    left = core.contract(state.session_id)
    planned = session_file.plan(base, mine, tell, left)
    if planned is None:
        return left.path if left else ""
    core.set_contract(intending(project_id, state, planned, left))
    done = session_file.leave(base, mine, planned, left)
    if done is not None:
        core.set_contract(left_of(project_id, state, done, ended=False))
    elif left is not None:
        core.set_contract(left)
    return done.handoff.path if done else ""


def transcript_state(name: str, config: Config) -> SessionState | None:
    """Fold the transcript of a session that is named by its id, or by how that begins."""
    if not name or not name.replace("-", "").isalnum():
        return None
    pattern = f"*/{name}*.jsonl" if len(name) >= PREFIX_MIN else f"*/{name}.jsonl"
    found: dict[str, Path] = {}
    for directory in claude_dirs(config.claude.config_dirs):
        found |= {path.stem: path for path in Path(directory, "projects").glob(pattern)}
    if len(found) > 1 and name not in found:
        raise ambiguous(name, found)
    path = found.get(name) or next(iter(found.values()), None)
    return replay(path)[0] if path else None


_COMMANDS: dict[str, tuple[Method, Callable[[str, Any, Config], dict[str, Any]]]] = {
    "open": (open_.METHOD, _open),
    "list": (list_.METHOD, _list),
    "review": (review.METHOD, _review),
    "escalate": (escalate.METHOD, _escalate),
    "close": (close.METHOD, _close),
}
