"""The entry points for commands without a daemon; the client calls them by handoff.local."""

import contextlib
import os
from typing import Any

from handoff.common.errors import HandoffError
from handoff.common.paths import config_file
from handoffd.checkpoint import checkpoint_file
from handoffd.checkpoint.checkpoint_file import (
    clear_handoff,
    find_project_root,
    get_handoff_path,
    load_handoff,
    save_handoff,
    update_handoff,
)
from handoffd.redaction.redact import redact
from handoffd.runtime import clock
from handoffd.session.items import list_stamp
from handoffd.session.text import redact_values
from handoffd.store.item_marks import DROPPED

__all__ = (
    "check_contract",
    "clear_handoff",
    "close_text",
    "config_problem",
    "contract_findings",
    "find_project_root",
    "get_handoff_path",
    "http_settings",
    "inject_text",
    "link_findings",
    "load_handoff",
    "masked",
    "migrate",
    "save_handoff",
    "save_state",
    "save_text",
    "show_text",
    "token",
    "update_handoff",
)


def _use_own_patterns() -> None:
    """Mask the user's own patterns, too; without a configuration nothing is loaded."""
    if os.path.exists(config_file()):
        from handoffd import config
        from handoffd.redaction.redact import use_patterns

        # `handoff doctor` reports a broken configuration; saving must go on.
        with contextlib.suppress(HandoffError):
            use_patterns(config.load(config_file()).redact.patterns)


def masked(text: str) -> str:
    """Return a text with its secrets masked."""
    _use_own_patterns()
    return redact(text)[0]


# The time that a hook may wait.
HOOK_SECONDS = 0.1


def inject_text(start: str, level: str) -> str:
    """Return the brief of the state on disk, or an empty text."""
    from handoffd.offline import brief

    root = str(find_project_root(start))
    return brief.text(root, level)


def show_text(start: str, style: dict[str, Any]) -> str:
    """Return the checkpoint on disk, rendered as the daemon renders a project."""
    root = str(find_project_root(start))
    stored = checkpoint_file.load(root)
    if stored.problem:
        raise HandoffError(f"{root}: handoff.yaml cannot be read: {stored.problem}.", "Mend it.")
    if stored.data is None:
        raise HandoffError(f"There is no handoff of {start} on disk.")
    if not style.get("json"):
        _with_shown_list(root, list_stamp(_lines(stored.data)))
    return _rendered("show", {"project": root, "document": redact_values(stored.data)}, style)


def _lines(document: dict[str, Any]) -> list[str]:
    """Return the open items on disk."""
    lines = document.get("next")
    return list(map(str, lines)) if isinstance(lines, list) else []


def _with_shown_list(root: str, stamp: str = "") -> str:
    """Return the stamp of the list that was shown last; a stamp that is given replaces it."""
    from handoff.common.paths import state_dir
    from handoffd.store.core import CoreStore

    path = f"{state_dir()}/core.db"
    # Showing the list must go on without core.db; closing an item then says what is missing.
    with contextlib.suppress(HandoffError):
        if os.path.exists(path):
            with contextlib.closing(CoreStore(path, HOOK_SECONDS)) as core:
                project_id = core.project_id(root, clock.iso())
                if project_id and stamp:
                    core.item_marks.set_shown(project_id, stamp)
                return core.item_marks.shown(project_id) if project_id else ""
    return ""


def close_text(
    command: str, start: str, params: dict[str, Any], style: dict[str, Any]
) -> tuple[dict[str, Any], str]:
    """Delete an open item from the file; the next daemon finds the deleted line, and drops it."""
    from handoffd.api.item_closing import checked, result

    root = str(find_project_root(start))
    shown = params.get("stamp") or _with_shown_list(root)
    closed = ""

    def compute(found: dict[str, Any] | None) -> dict[str, Any]:
        nonlocal closed
        lines = _lines(found or {})
        closed = lines.pop(checked(params["number"], len(lines), shown, list_stamp(lines)))
        return {**(found or {}), "next": lines}

    document = checkpoint_file.change(root, compute).data
    left = _lines(document)
    items = [{"number": number, "text": line} for number, line in enumerate(left, 1)]
    data = result(closed, DROPPED, document, redact_values(items))
    if not style.get("json"):
        _with_shown_list(root, list_stamp(left))
    return data, _rendered(command, data, style)


def save_text(
    start: str, given: dict[str, str | None], tags: list[str], style: dict[str, Any]
) -> tuple[dict[str, Any], str]:
    """Save a person's values without core.db, which a daemon that hangs may hold locked.

    Return the data and the text of the reply.
    """
    from handoffd.api.handlers.save import result
    from handoffd.checkpoint.checkpoint_format import with_tags
    from handoffd.checkpoint.edits import spoken
    from handoffd.projects.project_root import find_root
    from handoffd.session.text import keep_values

    place = find_root(start)
    place.require()
    root = place.path
    observed = git_state(root)
    kept = keep_values({})

    def compute(found: dict[str, Any] | None) -> dict[str, Any]:
        nonlocal kept
        known = {**checkpoint_file.blank(), **(found or {})}
        kept = keep_values(spoken(given, known))
        return with_tags({**checkpoint_file.merged(known, observed), **kept.values}, tags)

    done = checkpoint_file.change(root, compute)
    data = result(root, done.data, kept)
    return data, _rendered("save", data, style)


def _rendered(command: str, data: dict[str, Any], style: dict[str, Any]) -> str:
    from handoffd.api import registry
    from handoffd.api.method import render_reply
    from handoffd.api.terminal_text import Style

    return render_reply(registry.method(command), data, Style.model_validate(style))


def save_state(start: str) -> None:
    """Write git's facts into the checkpoint before a compaction; all other values stay."""
    from handoffd.projects.project_root import find_root

    root = find_root(start)
    if not root.writable_unasked:
        return
    observed = git_state(root.path, HOOK_SECONDS)
    checkpoint_file.keep_observed(root.path, observed, HOOK_SECONDS)


def git_state(root: str, seconds: float = 2.0) -> dict[str, Any]:
    """Return branch and uncommitted files, as far as git answers in time."""
    from handoffd.links import git
    from handoffd.projects.project_root import branch, git_directory

    if git_directory(root) is None:
        return {}
    try:
        uncommitted = git.uncommitted_files(root, seconds)
    except git.GitError:
        return {"branch": branch(root)}
    return {"branch": branch(root), "files": uncommitted}


def migrate(*, dry_run: bool, as_json: bool) -> tuple[int, str]:
    """Bring v1 handoff directories to v2; return the exit code and the output."""
    from handoffd.contract import migration

    return migration.run(_handoffs_directory(), dry_run=dry_run, as_json=as_json)


def check_contract(directory: str, *, as_json: bool) -> tuple[int, str]:
    """Check a directory of handoffs; return the exit code and the output."""
    from handoffd.contract import conformance, handoff_directory

    base = _handoffs_directory()
    here = os.path.realpath(directory)
    # A project itself stands for its handoffs.
    if not here.startswith(f"{base}/") and os.path.isdir(
        handoff_directory.directory_of(base, here)
    ):
        here = handoff_directory.directory_of(base, here)
    return conformance.run(here, as_json=as_json)


def contract_findings() -> list[dict[str, str]]:
    """Return the findings of `handoff doctor` on the names of handoff directories."""
    from handoffd.contract import migration

    return migration.findings(_handoffs_directory())


def link_findings(start: str) -> list[dict[str, str]]:
    """Return the findings of `handoff doctor` on the programs that receive records."""
    from handoffd import config
    from handoffd.links.http_post import PostError
    from handoffd.links.mail_keys import read_token
    from handoffd.links.tracker import TrackerError
    from handoffd.links.trackers import tracker_at

    settings = config.load(config_file())
    found = []
    tracker = tracker_at(str(find_project_root(start)), settings)
    if tracker.exists():
        try:
            found.append({"level": "ok", "text": f"Beads: {tracker.program()}", "remedy": ""})
        except TrackerError as problem:
            remedy = "Install bd, or name it: [beads] command" if problem.missing else ""
            found.append({"level": "note", "text": f"Beads: {problem}", "remedy": remedy})
    place = ".bon/handoffs"
    if os.path.isdir(f"{find_project_root(start)}/{place}") and place not in settings.contract.also:
        text = f"this project has {place}, and some readers of handoffs look only there"
        remedy = f'To keep links there: also = ["{place}"] in [contract]'
        found.append({"level": "note", "text": text, "remedy": remedy})
    if settings.mail.url and settings.mail.token_file:
        try:
            read_token(settings.mail.token_file)
        except PostError as problem:
            found.append({"level": "bad", "text": f"mail: {problem}", "remedy": ""})
    return found


def token(*, rotate: bool) -> str:
    """Return the token of the HTTP listener, or a new one."""
    from handoffd.runtime.directories import make_state_dir
    from handoffd.threads import http_token

    directory = make_state_dir()
    return http_token.rotate(directory) if rotate else http_token.ensure(directory)


def http_settings() -> dict[str, str]:
    """Return the address of MCP over HTTP, and the public one if it is set."""
    from handoffd import config
    from handoffd.threads import http_listener

    settings = config.load(config_file()).http
    return {"url": http_listener.address(settings), "public_url": settings.public_url}


def _handoffs_directory() -> str:
    from handoffd import config
    from handoffd.contract import handoff_directory

    return handoff_directory.handoffs_base(config.load(config_file()).contract.directory)


def config_problem() -> str:
    """Return the error in the configuration, or an empty text."""
    from handoffd import config

    try:
        config.load(config_file())
    except HandoffError as problem:
        return str(problem)
    return ""


_use_own_patterns()
