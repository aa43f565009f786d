"""The plugin, installed by Claude Code's own program."""

import os
import shutil
import subprocess

from handoff import local
from handoff.common import json_edit, paths, programs
from handoff.common.errors import HandoffError
from handoff.setup import claude_entries, foreign_files, locations
from handoff.setup.foreign_files import read_json
from handoff.setup.manifest import Manifest
from handoff.setup.plan import SetupAction, SetupPlan

CLAUDE_SECONDS = 120.0


def plan_plugin(plan: SetupPlan) -> None:
    draft = plan.draft(locations.settings_file(), "plugin")
    if claude_entries.plugin_is_enabled(_readable(draft.text)):
        plan.remarks.append(f"The plugin {claude_entries.PLUGIN} is enabled already.")
        return
    claude = locations.claude()
    if claude is None:
        raise HandoffError(
            "Claude Code's program `claude` is not on PATH, and the plugin is installed by it.",
            "Install Claude Code first, or leave the plugin out: hooks and MCP do the same.",
        )
    _check_program()
    # Claude Code will change the file. Its content before is needed to take all changes out again.
    draft.kept = True
    plan.actions.append(_install_action(claude, locations.claude_home(), locations.marketplace()))


def _readable(text: str) -> str:
    """Return the text if it is a JSON object, else an empty one; the edit reports the error."""
    try:
        return text if isinstance(json_edit.load(text), dict) else "{}"
    except ValueError:
        return "{}"


def is_enabled() -> bool:
    """Return True if Claude Code runs our hooks and our server by the plugin."""
    try:
        text = (foreign_files.read(locations.settings_file()) or b"").decode("utf-8", "replace")
    except OSError:
        return False
    return claude_entries.plugin_is_enabled(_readable(text))


def _check_program() -> None:
    """Raise an error unless `handoff` is in one of the two places where the plugin looks for it."""
    local = f"{paths.home()}/.local/bin/handoff"
    if shutil.which("handoff") is None and not os.access(local, os.X_OK):
        script = locations.installed_script("handoff")
        raise HandoffError(
            "The plugin looks for `handoff` on PATH and in ~/.local/bin, and it is in neither.",
            f"Link it: mkdir -p ~/.local/bin && ln -s {script} {local}",
        )


def _install_action(claude: str, config: str, marketplace: str) -> SetupAction:
    def install() -> None:
        run(claude, config, "marketplace", "add", marketplace)
        run(claude, config, "install", claude_entries.PLUGIN)

    def note(noted: Manifest) -> None:
        noted.plugin = list(dict.fromkeys([*noted.plugin, config]))

    title = (
        f"install the plugin: claude plugin marketplace add {marketplace}, "
        f"claude plugin install {claude_entries.PLUGIN}"
    )
    return SetupAction(title, install, lambda: uninstall(config), note)


def uninstall(config: str) -> None:
    """Let Claude Code remove our plugin and our marketplace, as far as they are there."""
    has_plugin, has_marketplace = is_installed(config)
    claude = locations.claude()
    if claude is None and (has_plugin or has_marketplace):
        raise HandoffError(
            "Claude Code's program `claude` is not on PATH, and the plugin is removed by it.",
            f"Where it is: claude plugin uninstall {claude_entries.PLUGIN}",
        )
    if claude and has_plugin:
        run(claude, config, "uninstall", claude_entries.PLUGIN)
    if claude and has_marketplace:
        run(claude, config, "marketplace", "remove", claude_entries.NAME)


def is_installed(config: str) -> tuple[bool, bool]:
    """Return whether Claude Code knows the plugin, and whether it knows the marketplace."""
    plugins = read_json(f"{config}/plugins/installed_plugins.json")[0].get("plugins")
    marketplaces = read_json(f"{config}/plugins/known_marketplaces.json")[0]
    has_plugin = isinstance(plugins, dict) and claude_entries.PLUGIN in plugins
    return has_plugin, claude_entries.NAME in marketplaces


def others_with(name: str) -> list[str]:
    """Return the other installed plugins that have a skill or a command of this name."""
    plugins = read_json(f"{locations.claude_home()}/plugins/installed_plugins.json")[0].get(
        "plugins"
    )
    found = []
    for plugin, copies in plugins.items() if isinstance(plugins, dict) else ():
        for copy in copies if isinstance(copies, list) else [copies]:
            place = copy.get("installPath") if isinstance(copy, dict) else None
            has_it = isinstance(place, str) and any(
                os.path.exists(f"{place}/{path}")
                for path in (f"skills/{name}/SKILL.md", f"commands/{name}.md")
            )
            if has_it and plugin != claude_entries.PLUGIN and plugin not in found:
                found.append(plugin)
    return found


def run(claude: str, config: str, *words: str) -> None:
    environment = programs.environment()
    if config != locations.claude_home():
        environment["CLAUDE_CONFIG_DIR"] = config
    asked = f"claude plugin {' '.join(words)}"
    try:
        done = subprocess.run(  # noqa: S603  the user's own program, and fixed words
            [claude, "plugin", *words],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=CLAUDE_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise HandoffError(f"`{asked}` did not end within {CLAUDE_SECONDS:g} s.") from None
    except OSError as problem:
        raise HandoffError(f"{claude} cannot be started: {problem.strerror}.") from None
    if done.returncode != 0:
        said = local.daemon_code().masked(done.stderr or done.stdout)
        raise HandoffError(f"`{asked}` failed.", said.strip())
