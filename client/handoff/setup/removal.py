"""The removal of setup's changes, by its notes, or by the look of our entries without notes."""

import contextlib
import os
import shlex

from handoff.common import paths
from handoff.common.errors import HandoffError
from handoff.setup import (
    claude_entries,
    foreign_files,
    http_part,
    locations,
    manifest,
    parts,
    plugin,
    service_units,
    toml_edit,
)
from handoff.setup.foreign_files import Draft
from handoff.setup.plan import SHARED_PARTS, SetupAction, SetupPlan


def make_plan() -> SetupPlan:
    """Examine everything, and return the plan of the removal."""
    plan = SetupPlan()
    for config in plan.noted.plugin:
        if any(plugin.is_installed(config)):
            plan.actions.append(_uninstall_action(config))
    if plan.noted.service:
        plan.actions.append(_stop_action(plan.noted.service))
    for path, record in plan.noted.files.items():
        _plan_noted(plan, plan.draft(path, record.part))
    if plan.noted.is_empty:
        _plan_recognised(plan)
    for path, target in plan.noted.links.items():
        if os.path.lexists(path):
            plan.actions.append(_unlink_action(path, target))
    http_part.plan_removal(plan)
    return plan


def _uninstall_action(config: str) -> SetupAction:
    words = (
        f"claude plugin uninstall {claude_entries.PLUGIN}, marketplace remove {claude_entries.NAME}"
    )
    return SetupAction(
        f"take the plugin out: {words}", lambda: plugin.uninstall(config), early=True
    )


def _stop_action(kind: str) -> SetupAction:
    title = "end handoffd" if kind == "background" else f"end the service: {kind} forgets it"
    return SetupAction(title, lambda: service_units.stop(kind))


def _unlink_action(path: str, target: str) -> SetupAction:
    def remove() -> None:
        if not parts.unlink(path, target):
            raise HandoffError(f"{path} is no longer the link that setup made, and stays.")

    return SetupAction(f"remove the link {path}", remove)


def _plan_noted(plan: SetupPlan, draft: Draft) -> None:
    if draft.before is None:
        return
    kept = plan.noted.backup_of(draft.path)
    if plan.owns(draft):
        draft.after = kept
    elif draft.part in SHARED_PARTS:
        _take_entries(plan, draft, kept)
    elif draft.part == "service" and service_units.MARK.encode() in draft.before:
        draft.after = None
    elif draft.before != kept:
        if draft.part == "config":
            _take_directories(plan, draft)
            http_part.take_settings(plan.noted, draft)
        stays = ": what else is in it stays" if draft.is_changed else ", and stays as it is"
        plan.remarks.append(f"{draft.path} was changed since{stays}.")


def _take_entries(plan: SetupPlan, draft: Draft, kept: bytes | None) -> None:
    before = (kept or b"").decode()
    has_plugin = os.path.dirname(draft.path) in plan.noted.plugin
    plan.edit(draft, lambda text: claude_entries.take_all(text, before, plugin=has_plugin))
    # A file that was not there before setup goes if nothing is left in it, even if Claude Code has
    # rewritten it.
    if kept is None and draft.text.split() in (["{}"], ["{", "}"]) and draft.is_changed:
        draft.after = None


def _take_directories(plan: SetupPlan, draft: Draft) -> None:
    """Take the paths of Claude Code's files that setup added out of a configuration."""
    for directory in plan.noted.config_dirs:
        with contextlib.suppress(HandoffError):
            draft.text = toml_edit.take(draft.text, "claude", "config_dirs", directory)


def _plan_recognised(plan: SetupPlan) -> None:
    """Plan without notes: recognise our entries, our unit and our commands by their content."""
    for path in (locations.settings_file(), locations.servers_file(), locations.desktop_file()):
        draft = plan.draft(path, "hooks")
        if draft.before is not None and draft.problem is None:
            plan.edit(draft, lambda text: claude_entries.take_all(text, ""))
    for kind in ("systemd", "launchd"):
        draft = plan.draft(service_units.unit_file(kind), "service")
        if draft.before is not None and service_units.MARK.encode() in draft.before:
            draft.after = None
            plan.actions.append(_stop_action(kind))
    for name, text in parts.commands():
        draft = plan.draft(f"{locations.claude_home()}/commands/{name}", "commands")
        if draft.before == text.encode():
            draft.after = None


def apply(plan: SetupPlan) -> list[str]:
    """Carry out the removal as far as possible; return the problems.

    The notes stay if there was a problem.
    """
    problems = _run_actions([action for action in plan.actions if action.early])
    # Claude Code has changed its settings by now.
    plan = make_plan()
    problems += _run_actions([action for action in plan.actions if not action.early])
    for draft in plan.changes:
        problems += _replace(draft)
    for path in plan.noted.files:
        with contextlib.suppress(OSError):
            os.unlink(foreign_files.temporary_path(path))
    _remove_directories(plan.noted.directories)
    service_units.reload_units(plan.noted.service or "systemd")
    if any(draft.part == "config" for draft in plan.changes):
        service_units.reload_configuration()
    if not problems:
        _forget(plan)
    return problems


def _run_actions(actions: list[SetupAction]) -> list[str]:
    problems = []
    for action in actions:
        try:
            action.do()
        except (HandoffError, OSError) as problem:
            problems.append(str(problem))
    return problems


def _replace(draft: Draft) -> list[str]:
    try:
        if draft.problem:
            raise draft.problem
        foreign_files.replace(draft, draft.before, draft.after)
    except (HandoffError, OSError) as problem:
        return [str(problem)]
    return []


def _remove_directories(directories: list[str]) -> None:
    for directory in sorted(directories, key=len, reverse=True):
        with contextlib.suppress(OSError):
            os.rmdir(directory)


def _forget(plan: SetupPlan) -> None:
    """Remove the notes; the backup of a file stays if its old content could not be restored."""
    known = plan.noted
    kept = {
        known.files[draft.path].backup
        for draft in plan.changes
        if draft.path in known.files and draft.after != known.backup_of(draft.path)
    }
    manifest.forget_but([name for name in kept if name])


def remaining_files() -> str:
    """Return the text that names the files that stay, and the commands that remove them."""
    places = (
        (paths.state_dir(), "its state; `handoff forget` erases one project"),
        (f"{paths.home()}/.claude/handoffs", "what sessions left"),
        (paths.config_file(), "its configuration"),
        (service_units.agent_errors(), "what launchd heard of it"),
    )
    lines = [
        f"  rm -r {shlex.quote(path)}    ({text})\n"
        for path, text in places
        if os.path.lexists(path)
    ]
    lines.append("  rm -r PROJECT/.flow-guardian    (the state of each project)\n")
    return "What handoffd knows and wrote stays. To be rid of it, too:\n" + "".join(lines)
