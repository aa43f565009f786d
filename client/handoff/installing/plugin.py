"""The plugin, installed by Claude Code's own program."""

import os
import shutil
import subprocess
from typing import Any

from handoff import local, paths, programs
from handoff.documents import load_json
from handoff.errors import HandoffError
from handoff.installing import entries, files, json_text, program
from handoff.installing.manifest import Manifest
from handoff.installing.plan import Action, Plan

CLAUDE_SECONDS = 120.0


def plan_plugin(plan: Plan) -> None:
    draft = plan.draft(program.settings_file(), "plugin")
    if entries.plugin_is_enabled(_readable(draft.text)):
        plan.remarks.append(f"The plugin {entries.PLUGIN} is enabled already.")
        return
    claude = program.claude()
    if claude is None:
        raise HandoffError(
            "Claude Code's program `claude` is not on PATH, and the plugin is installed by it.",
            "Install Claude Code first, or leave the plugin out: hooks and MCP do the same.",
        )
    _check_found()
    # Claude Code will change it; what was there before is needed to take all of it out again.
    draft.kept = True
    plan.actions.append(_installing(claude, program.claude_home(), program.marketplace()))


def _readable(text: str) -> str:
    """Return a text if it is JSON; what is wrong with it is said where it is edited."""
    try:
        return text if isinstance(json_text.load(text), dict) else "{}"
    except ValueError:
        return "{}"


def is_enabled() -> bool:
    """Tell whether Claude Code runs our hooks and our server by the plugin."""
    try:
        text = (files.read(program.settings_file()) or b"").decode("utf-8", "replace")
    except OSError:
        return False
    return entries.plugin_is_enabled(_readable(text))


def _check_found() -> None:
    """The plugin's hooks look for `handoff` in two places only."""
    local = f"{paths.home()}/.local/bin/handoff"
    if shutil.which("handoff") is None and not os.access(local, os.X_OK):
        raise HandoffError(
            "The plugin looks for `handoff` on PATH and in ~/.local/bin, and it is in neither.",
            f"Link it: mkdir -p ~/.local/bin && ln -s {program.own('handoff')} {local}",
        )


def _installing(claude: str, config: str, marketplace: str) -> Action:
    def install() -> None:
        run(claude, config, "marketplace", "add", marketplace)
        run(claude, config, "install", entries.PLUGIN)

    def note(noted: Manifest) -> None:
        noted.plugin = list(dict.fromkeys([*noted.plugin, config]))

    title = (
        f"install the plugin: claude plugin marketplace add {marketplace}, "
        f"claude plugin install {entries.PLUGIN}"
    )
    return Action(title, install, lambda: uninstall(config), note)


def uninstall(config: str) -> None:
    """Take out by Claude Code what it put in, as far as it is there."""
    has_plugin, has_marketplace = is_installed(config)
    claude = program.claude()
    if claude is None and (has_plugin or has_marketplace):
        raise HandoffError(
            "Claude Code's program `claude` is not on PATH, and the plugin is removed by it.",
            f"Where it is: claude plugin uninstall {entries.PLUGIN}",
        )
    if claude and has_plugin:
        run(claude, config, "uninstall", entries.PLUGIN)
    if claude and has_marketplace:
        run(claude, config, "marketplace", "remove", entries.NAME)


def is_installed(config: str) -> tuple[bool, bool]:
    """Tell whether Claude Code knows the plugin, and the marketplace."""
    plugins = _json(f"{config}/plugins/installed_plugins.json").get("plugins")
    marketplaces = _json(f"{config}/plugins/known_marketplaces.json")
    has_plugin = isinstance(plugins, dict) and entries.PLUGIN in plugins
    return has_plugin, entries.NAME in marketplaces


def _json(path: str) -> dict[str, Any]:
    try:
        found = load_json(files.read(path) or b"{}")
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def run(claude: str, config: str, *words: str) -> None:
    environment = programs.environment()
    if config != program.claude_home():
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
