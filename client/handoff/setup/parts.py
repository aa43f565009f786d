"""The parts of setup: each edits drafts and adds actions to the plan, and changes no file."""

import contextlib
import json
import os
import re
import shlex
import shutil
from collections.abc import Callable, Iterator

from handoff import local
from handoff.common import paths
from handoff.common.errors import HandoffError
from handoff.setup import (
    claude_entries,
    http_part,
    locations,
    plugin,
    service_units,
    toml_edit,
)
from handoff.setup.manifest import Manifest
from handoff.setup.plan import SetupAction, SetupPlan


def plan_hooks(plan: SetupPlan) -> None:
    with open(f"{locations.plugin()}/hooks/hooks.json", encoding="utf-8") as text:
        definition: claude_entries.Definition = json.load(text)["hooks"]
    command = claude_entries.hook_command(locations.path_in_text("handoff"))
    wanted = claude_entries.with_command(definition, command)
    draft = plan.draft(locations.settings_file(), "hooks")
    plan.edit(draft, lambda text: claude_entries.put_hooks(text, wanted))
    if "handoff inject" in draft.text:
        plan.remarks.append(
            f"{draft.path} has hooks that run `handoff inject`, which tell a session the same: "
            "take them out."
        )


def leave_to_plugin(plan: SetupPlan) -> None:
    """Take out the entries that the plugin brings along, so that nothing fires twice."""
    draft = plan.draft(locations.settings_file(), "hooks")
    before = (plan.noted.backup_of(draft.path) or b"").decode()
    if draft.before is not None:
        plan.edit(draft, lambda text: claude_entries.without_hooks(text, before))
    draft = plan.draft(locations.servers_file(), "mcp")
    if draft.path in plan.noted.files and draft.before is not None:
        plan.edit(draft, claude_entries.take_server)


def plan_mcp(plan: SetupPlan) -> None:
    _plan_server(plan, locations.servers_file(), "mcp")


def plan_desktop(plan: SetupPlan) -> None:
    if os.path.lexists(locations.desktop_file()):
        _plan_server(plan, locations.desktop_file(), "desktop")


def _plan_server(plan: SetupPlan, path: str, part: str) -> None:
    entry = claude_entries.server(locations.path_in_text("handoff"), code=part == "mcp")

    def put(text: str) -> str:
        now = claude_entries.server_of(text)
        # An entry that runs a client which is gone is of no use.
        is_ours = claude_entries.has_our_server(text) and (
            path in plan.noted.files or not os.path.exists(now["command"])
        )
        if now not in (None, entry) and not is_ours:
            plan.remarks.append(f"{path} has a server `handoffd` of somebody else's, which stays.")
            return text
        return claude_entries.put_server(text, entry)

    plan.edit(plan.draft(path, part), put)


def plan_commands(plan: SetupPlan) -> None:
    for name, text in commands():
        draft = plan.draft(f"{locations.claude_home()}/commands/{name}", "commands")
        if draft.before is None or plan.owns(draft):
            draft.text = text
        elif draft.text != text:
            plan.remarks.append(
                f"{draft.path} is not setup's, and stays as it is: /{name[:-3]} runs it."
            )
        _remark_same_name(plan, name[:-3])


def _remark_same_name(plan: SetupPlan, name: str) -> None:
    """Say that a skill has the name of a command of ours: Claude Code runs the skill then."""
    skill = f"{locations.claude_home()}/skills/{name}"
    if os.path.exists(f"{skill}/SKILL.md"):
        plan.remarks.append(
            f"{skill} is a skill of the same name, and /{name} runs it: our command is shadowed. "
            f"In a shell: handoff slash {name}"
        )
    for other in plugin.others_with(name):
        plan.remarks.append(
            f"The plugin {other} has a /{name}, too: name it as Claude Code lists it."
        )


def commands() -> Iterator[tuple[str, str]]:
    """Yield the slash commands: the name of each file, and its text with our program's path."""
    directory = f"{locations.plugin()}/commands"
    path = shlex.quote(locations.path_in_text("handoff"))
    for name in sorted(os.listdir(directory)) if os.path.isdir(directory) else []:
        if name.endswith(".md"):
            with open(f"{directory}/{name}", encoding="utf-8") as stream:
                text = stream.read()
            yield name, with_program(text, path)


def with_program(text: str, path: str) -> str:
    """Name the program by its path: Claude Code may be started where it is not on the PATH.

    The program's output uses its bare name, so both spellings are granted.
    """
    for lead in ("`handoff ", "\nhandoff "):
        text = text.replace(lead, lead.replace("handoff", path))
    granted = re.compile(r"Bash\(handoff ([^)]*)\)")
    return granted.sub(lambda rule: f"{rule[0]}, Bash({path} {rule[1]})", text)


def plan_status_line(plan: SetupPlan) -> None:
    path = locations.path_in_text("handoff")
    draft = plan.draft(locations.settings_file(), "statusline")

    def put(text: str) -> str:
        try:
            return claude_entries.put_status_line(text, path)
        except claude_entries.ShapeError as reason:
            plan.remarks.append(f"{draft.path}: {reason}; it stays as it is.")
            return text

    plan.edit(draft, put)


def plan_flow(plan: SetupPlan) -> None:
    """Plan a link `flow` beside `handoff`, unless another program has that name."""
    found = shutil.which("flow")
    if found is not None:
        if os.path.realpath(found) != os.path.realpath(locations.installed_script("handoff")):
            plan.remarks.append(f"{found} is another program, so there is no link `flow`.")
        return
    if locations.is_on_path("handoff"):
        directory, target = os.path.dirname(locations.lasting_path("handoff")), "handoff"
    else:
        directory, target = f"{paths.home()}/.local/bin", locations.installed_script("handoff")
    _plan_link(plan, f"{directory}/flow", target)


def _plan_link(plan: SetupPlan, path: str, target: str) -> None:
    # This draft is not edited: it shows the problem that would prevent a link there.
    look = plan.draft(path, "flow")
    if os.path.lexists(path):
        if os.path.realpath(path) != os.path.realpath(locations.installed_script("handoff")):
            plan.remarks.append(f"{path} is there already, and stays as it is.")
        return
    if look.problem:
        raise HandoffError(look.problem.title, remedy(look.problem.hint, "flow"))

    def link() -> None:
        for directory in look.missing_directories:
            os.mkdir(directory, 0o700)
        os.symlink(target, path)

    def note(noted: Manifest) -> None:
        noted.links[path] = target
        noted.enter_directories(look.missing_directories)

    def undo() -> None:
        unlink(path, target)
        for directory in reversed(look.missing_directories):
            with contextlib.suppress(OSError):
                os.rmdir(directory)

    plan.actions.append(SetupAction(f"link {path} to {target}", link, undo, note))


def unlink(path: str, target: str) -> bool:
    """Remove a link if it still leads to our target; return True if it was removed."""
    if not os.path.islink(path) or os.readlink(path) != target:
        return False
    os.unlink(path)
    return True


def plan_configuration(plan: SetupPlan, write: str | None) -> None:
    """Plan the settings: where handoff.yaml may be written, and where Claude Code's files are."""
    draft = plan.draft(paths.config_file(), "config")
    broken = draft.before and local.daemon_code().config_problem()
    if broken:
        raise HandoffError("The configuration is broken, so nothing was changed.", broken)
    if write is not None and write != write_setting(draft.text):
        draft.text = toml_edit.put(draft.text, "checkpoint", "write", write)
    directory = locations.claude_home()
    known = toml_edit.load(draft.text).get("claude", {}).get("config_dirs", [])
    added = []
    if directory != f"{paths.home()}/.claude" and directory not in known:
        added = [directory]
        draft.text = toml_edit.add(draft.text, "claude", "config_dirs", directory)

    def note(noted: Manifest) -> None:
        noted.config_dirs = list(dict.fromkeys([*noted.config_dirs, *added]))

    if draft.is_changed:
        plan.actions.append(SetupAction("", service_units.reload_configuration, note=note))


def write_setting(text: str) -> str:
    return str(toml_edit.load(text).get("checkpoint", {}).get("write", "marked"))


def remedy(hint: str, part: str) -> str:
    leave = "Or leave" if hint else "Leave"
    by_hand = f"{leave} it out with --without {part}; --dry-run shows what to add by hand."
    return f"{hint} {by_hand}".strip()


PLANNERS: dict[str, Callable[[SetupPlan], None]] = {
    "service": service_units.plan_service,
    "hooks": plan_hooks,
    "plugin": plugin.plan_plugin,
    "mcp": plan_mcp,
    "desktop": plan_desktop,
    "commands": plan_commands,
    "statusline": plan_status_line,
    "flow": plan_flow,
    "http": http_part.plan_http,
}
