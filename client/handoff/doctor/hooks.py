"""Check that the hooks are installed, that they can run, and that they really fire."""

import os
import shlex
import shutil
import sys
import time
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from handoff.common import paths
from handoff.doctor.environment import ClaudeCode, Environment, working_directory
from handoff.doctor.finding import Finding, age, bad, explained, note, ok
from handoff.setup.claude_entries import PLUGIN, hook_program
from handoff.setup.foreign_files import read_json

# A hook is heard before its prompt is in the transcript. This much is allowed for clocks and a
# slow disk.
_GRACE_SECONDS = 30.0
_SETUP = "Run: handoff setup"


def examine(environment: Environment) -> list[Finding]:
    claude = environment.claude
    if claude.problem:
        text = f"{claude.settings_file} cannot be read ({claude.problem}): no hook runs"
        return [bad(text, "Mend that file.")]
    programs = list(programs_of(claude.settings))
    if not programs and claude.plugin is None:
        return [note("no hooks: a new session is not told what the last one left", _SETUP)]
    if not programs and not claude.plugin:
        return [note("the plugin is disabled", f"Run: claude plugin enable {PLUGIN}")]
    found = (
        _installed_twice(claude, programs)
        + _switched_off(claude)
        + _missing_programs(claude, programs)
    )
    silence = silent_since(environment, time.time()) if not found else ""
    if silence:
        remedy = explained("hooks-silent")
        found.append(bad(f"no hook was heard, though you typed a prompt at {silence}", remedy))
    return found + (
        [] if any(item.exit for item in found) else [ok(_summary(environment, programs))]
    )


def programs_of(settings: dict[str, Any]) -> Iterator[str]:
    """Yield the program of every hook that runs `handoff hook` (or the older `handoff inject`)."""
    events = settings.get("hooks")
    for groups in events.values() if isinstance(events, dict) else ():
        for group in groups if isinstance(groups, list) else ():
            hooks = group.get("hooks") if isinstance(group, dict) else None
            for hook in hooks if isinstance(hooks, list) else ():
                if program := hook_program(hook):
                    yield program


def _installed_twice(claude: ClaudeCode, programs: list[str]) -> list[Finding]:
    if not programs or not claude.plugin:
        return []
    text = f"hooks in {claude.settings_file}, and in the plugin as well; each is told once"
    return [note(text, f"Keep one: claude plugin disable {PLUGIN}")]


def _switched_off(claude: ClaudeCode) -> list[Finding]:
    """Return the files that switch all hooks off: for the user, or in the current project."""
    project = paths.project_root(working_directory())
    files = [claude.settings_file]
    files += [f"{project}/.claude/{name}" for name in ("settings.json", "settings.local.json")]
    return [
        bad(f"disableAllHooks in {path}: no hook runs", "Remove it there.")
        for path in dict.fromkeys(files)
        if read_json(path)[0].get("disableAllHooks") is True
    ]


def _missing_programs(claude: ClaudeCode, programs: list[str]) -> list[Finding]:
    """Return the programs of hooks that are not there."""
    gone = [program for program in dict.fromkeys(programs) if not _is_there(program)]
    found = [bad(f"a hook starts {program}, which is not there", _SETUP) for program in gone]
    if claude.plugin and not _is_there("handoff"):
        here = f"{os.path.dirname(sys.executable)}/handoff"
        text = "the plugin's hooks find no `handoff`: it is neither on PATH nor in ~/.local/bin"
        remedy = f"Run: mkdir -p ~/.local/bin && ln -s {shlex.quote(here)} ~/.local/bin/handoff"
        found.append(bad(text, remedy))
    return found


def _is_there(program: str) -> bool:
    expanded = os.path.expandvars(os.path.expanduser(program))
    search = f"{os.environ.get('PATH', '')}:{paths.home()}/.local/bin"
    return shutil.which(expanded, path=search) is not None


def silent_since(environment: Environment, now: float) -> str:
    """Return the time of a prompt that must have fired a hook, if no hook was heard.

    The prompt must have been typed since the last change of the settings, and while the daemon
    listened. The result is empty if there is no such prompt.
    """
    heard = environment.status.get("hooks")
    if heard is None:
        return ""
    here = os.path.realpath(f"{environment.claude.directory}/projects")
    typed = [
        root["typed_at"]
        for root in environment.known.get("roots", ())
        if os.path.realpath(root["path"]) == here and root["typed_at"]
    ]
    since = max(environment.claude.changed_at, now - environment.status["uptime_seconds"])
    if any(_seconds(event["at"]) >= since for event in heard.values()):
        return ""
    late = [time for time in typed if since + _GRACE_SECONDS < _seconds(time)]
    return max(late, default="")


def _seconds(time: str) -> float:
    return datetime.fromisoformat(time).timestamp()


def _summary(environment: Environment, programs: list[str]) -> str:
    where = "in settings.json" if programs else f"in the plugin {environment.claude.plugin_version}"
    heard = environment.status.get("hooks") or {}
    last = sorted(heard.items(), key=lambda item: float(item[1]["seconds"]))
    ages = ", ".join(f"{name} {age(event['seconds'])} ago" for name, event in last)
    return f"{where}; heard last: {ages}" if ages else f"{where}; none was heard yet"
