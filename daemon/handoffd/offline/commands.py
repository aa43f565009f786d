"""The entry points for commands without a daemon; the client calls them by handoff.local."""

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from handoff.common.errors import HandoffError
from handoff.common.paths import config_file
from handoffd.checkpoint import checkpoint_file
from handoffd.checkpoint.checkpoint_file import (
    find_project_root,
    get_handoff_path,
    load_handoff,
    save_handoff,
    update_handoff,
)
from handoffd.redaction.redact import redact
from handoffd.session.text import redact_values

__all__ = (
    "check_contract",
    "config_problem",
    "contract_findings",
    "find_project_root",
    "get_handoff_path",
    "inject_text",
    "link_findings",
    "load_handoff",
    "look_at_stores",
    "masked",
    "mend_stores",
    "migrate",
    "run",
    "save",
    "save_handoff",
    "save_state",
    "save_text",
    "serve_mcp",
    "show_text",
    "token",
    "update_handoff",
)


def _use_own_patterns() -> None:
    """Mask what the user's configuration says; without one nothing of it is loaded."""
    if os.path.exists(config_file()):
        from handoffd import config
        from handoffd.redaction.redact import use_patterns

        # A broken configuration is said by `handoff doctor`; saving must go on.
        with contextlib.suppress(HandoffError):
            use_patterns(config.load(config_file()).redact.patterns)


def masked(text: str) -> str:
    """Return a text with the secrets masked that are in it."""
    _use_own_patterns()
    return redact(text)[0]


# What a hook may wait for.
HOOK_SECONDS = 0.1


def inject_text(start: str, level: str) -> str:
    """Return the brief of what is on disk, or an empty text."""
    from handoffd.offline import brief

    root = str(find_project_root(start))
    return brief.text(root, level)


def show_text(start: str, *, columns: int, colour: bool, as_json: bool) -> str:
    """Return what is on disk of a project."""
    root = str(find_project_root(start))
    stored = checkpoint_file.load(root)
    if stored.problem:
        raise HandoffError(f"{root}: handoff.yaml cannot be read: {stored.problem}.", "Mend it.")
    if stored.data is None:
        raise HandoffError(f"There is no handoff of {start} on disk.")
    data = {"project": root, "document": redact_values(stored.data)}
    from handoffd.api.handlers import show
    from handoffd.api.method import shown
    from handoffd.api.terminal_text import Style

    return shown(show.METHOD, data, Style(columns=columns, colour=colour, json=as_json))


def save(start: str, given: dict[str, str | None], tags: list[str]) -> dict[str, Any]:
    """Do what the daemon's `save` does, from what is on disk."""
    from handoffd.checkpoint import checkpoint_format
    from handoffd.checkpoint.edits import spoken
    from handoffd.projects.project_root import find_root
    from handoffd.runtime import clock
    from handoffd.session.text import SAVED_MAX, keep_values

    place = find_root(start)
    place.require()
    root = place.path
    kept = keep_values({name: value for name, value in given.items() if value is not None})
    cleared = {name: None for name, value in kept.values.items() if value is None}
    observed = git_state(root)

    def compute(found: dict[str, Any] | None) -> dict[str, Any]:
        new = {**_blank(), **(found or {}), **observed, "timestamp": clock.iso()}
        return checkpoint_format.with_tags(
            {**new, **spoken(kept.values, new["goal"]), **cleared}, tags
        )

    done = checkpoint_file.change(root, compute)
    return {
        "path": str(get_handoff_path(Path(root))),
        "document": done.data,
        "redacted": kept.masked,
        "cut_to": SAVED_MAX if kept.cut else None,
    }


def save_text(
    start: str, given: dict[str, str | None], tags: list[str], style: dict[str, Any]
) -> str:
    """Save, and say so as the daemon would."""
    from handoffd.api.handlers.save import METHOD
    from handoffd.api.method import shown
    from handoffd.api.terminal_text import Style

    return shown(METHOD, save(start, given, tags), Style.model_validate(style))


def _blank() -> dict[str, Any]:
    from handoffd.session import fields

    now = fields.DEFAULT_NOW
    return {"goal": fields.NOT_STATED, "status": "in_progress", "now": now}


def save_state(start: str) -> None:
    """Keep the working state before a compaction: what git sees, and what was known."""
    from handoffd.projects.project_root import find_root

    root = find_root(start)
    if not root.writable_unasked:
        return
    observed = git_state(root.path, HOOK_SECONDS)
    checkpoint_file.change(
        root.path, lambda found: checkpoint_file.merged(found or _blank(), observed), HOOK_SECONDS
    )


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
    """Bring v1 handoff directories to v2; returns the exit code and what to print."""
    from handoffd.contract import migration

    return migration.run(_handoffs_directory(), dry_run=dry_run, as_json=as_json)


def check_contract(directory: str, *, as_json: bool) -> tuple[int, str]:
    """Check a directory of handoffs; returns the exit code and what to print."""
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
    """Return what `handoff doctor` says about the names of handoff directories."""
    from handoffd.contract import migration

    return migration.findings(_handoffs_directory())


def link_findings(start: str) -> list[dict[str, str]]:
    """Return what `handoff doctor` says about the programs that records are sent to."""
    from handoffd import config
    from handoffd.links.beads import Beads, BeadsError, BeadsProgram
    from handoffd.links.http_post import PostError
    from handoffd.links.mail_keys import read_token

    settings = config.load(config_file())
    found = []
    program = BeadsProgram(settings.beads.command, settings.beads.confine)
    beads = Beads(str(find_project_root(start)), program)
    if beads.exists():
        try:
            found.append({"level": "ok", "text": f"Beads: {beads.program()}", "remedy": ""})
        except BeadsError as problem:
            remedy = "Install bd, or name it: [beads] command" if problem.missing else ""
            found.append({"level": "note", "text": f"Beads: {problem}", "remedy": remedy})
    if settings.mail.url and settings.mail.token_file:
        try:
            read_token(settings.mail.token_file)
        except PostError as problem:
            found.append({"level": "bad", "text": f"mail: {problem}", "remedy": ""})
    return found


def run(
    command: str,
    params: dict[str, Any],
    style: dict[str, Any],
    tell: Callable[[dict[str, Any]], None] | None = None,
) -> tuple[dict[str, Any], str]:
    """Run the handler of a command; return its data and the text to print.

    `tell` is called with each step of a command that reports its progress.
    """
    from handoffd.offline import runner

    return runner.run(command, params, style, tell)


def serve_mcp(client: str, directory: str) -> None:
    """Answer MCP on stdin and stdout, from what is on disk."""
    from handoffd.offline import mcp

    mcp.serve(client, directory)


def look_at_stores() -> dict[str, Any]:
    """Return what is wrong with the stores, and what can be saved of them."""
    from handoffd.offline import repair

    return repair.look()


def mend_stores() -> dict[str, Any]:
    """Mend the stores; returns what was done."""
    from handoffd.offline import repair

    return repair.mend()


def token(*, rotate: bool) -> str:
    """Return the token of the HTTP listener, or a new one."""
    from handoffd.runtime.directories import make_state_dir
    from handoffd.threads import http_token

    directory = make_state_dir()
    return http_token.rotate(directory) if rotate else http_token.ensure(directory)


def _handoffs_directory() -> str:
    from handoffd import config
    from handoffd.contract import handoff_directory

    return handoff_directory.handoffs_base(config.load(config_file()).contract.directory)


def config_problem() -> str:
    """Return what is wrong with the configuration, or an empty text."""
    from handoffd import config

    try:
        config.load(config_file())
    except HandoffError as problem:
        return str(problem)
    return ""


_use_own_patterns()
