"""The input of the checks: the daemon's report, if it answers, and Claude Code's settings."""

import os
from dataclasses import dataclass, field
from typing import Any

from handoff import fast
from handoff.client import Client
from handoff.common.errors import HandoffError, UnknownMethodError, VersionsDifferError
from handoff.setup import locations
from handoff.setup.claude_entries import PLUGIN
from handoff.setup.foreign_files import read_json

# The search for transcripts that are about to be deleted takes longer than an ordinary request.
_ASKED_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class ClaudeCode:
    """The settings of Claude Code that a session started from here would have."""

    directory: str
    settings: dict[str, Any] = field(default_factory=dict)
    problem: str = ""
    changed_at: float = 0.0
    plugin_version: str = ""

    @property
    def settings_file(self) -> str:
        return f"{self.directory}/settings.json"

    @property
    def plugin(self) -> bool | None:
        """True if our plugin is enabled, False if it is disabled, None if it is not installed."""
        enabled = self.settings.get("enabledPlugins")
        found = enabled.get(PLUGIN) if isinstance(enabled, dict) else None
        return found if isinstance(found, bool) else None


@dataclass(frozen=True, slots=True)
class Environment:
    """The input that several checks share."""

    claude: ClaudeCode
    # Empty if the daemon does not answer. `problem` is then the reason, else the reason why the
    # method `doctor` has no answer.
    status: dict[str, Any] = field(default_factory=dict)
    warnings: list[dict[str, Any]] = field(default_factory=list)
    known: dict[str, Any] = field(default_factory=dict)
    problem: HandoffError | None = None
    daemon_version: str = ""


def read_environment() -> Environment:
    claude = claude_code()
    try:
        answer = Client().call("status")
    except VersionsDifferError as problem:
        return Environment(claude, problem=problem, daemon_version=problem.version)
    except HandoffError as problem:
        return Environment(claude, problem=problem)
    known, unanswered = {}, None
    try:
        known = Client(_ASKED_SECONDS).call("doctor")["data"]
        answer = Client().call("status")  # it now includes the findings of the method `doctor`
    except UnknownMethodError:
        pass
    except HandoffError as problem:
        unanswered = problem
    status, version = answer["data"], answer["version"]
    return Environment(claude, status, answer["warnings"], known, unanswered, version)


def claude_code() -> ClaudeCode:
    directory = locations.claude_home()
    path = f"{directory}/settings.json"
    settings, problem = read_json(path)
    try:
        changed_at = os.stat(path).st_mtime
    except OSError:
        changed_at = 0.0
    return ClaudeCode(directory, settings, problem, changed_at, _plugin_version(directory))


def _plugin_version(directory: str) -> str:
    """Return the version of our plugin that Claude Code has installed, or an empty string."""
    installed, _ = read_json(f"{directory}/plugins/installed_plugins.json")
    plugins = installed.get("plugins")
    entries = plugins.get(PLUGIN) if isinstance(plugins, dict) else None
    for entry in entries if isinstance(entries, list) else []:
        if isinstance(entry, dict) and isinstance(entry.get("version"), str):
            return str(entry["version"])
    return ""


def working_directory() -> str:
    return fast.working_directory() or "/"
