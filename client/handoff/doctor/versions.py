"""Check that client, daemon and plugin have the same version."""

from handoff import __version__
from handoff.common.errors import EXIT_VERSIONS_DIFFER
from handoff.doctor.environment import Environment
from handoff.doctor.finding import Finding, bad, note, ok
from handoff.setup.claude_entries import PLUGIN

_UPDATE = f"claude plugin marketplace update handoffd && claude plugin update {PLUGIN}"


def examine(environment: Environment) -> list[Finding]:
    versions = parts(environment)
    found = [
        bad(f"the {name} is {version}, this client is {__version__}", remedy, EXIT_VERSIONS_DIFFER)
        for name, version in versions.items()
        if (remedy := remedy_for(name, version))
    ]
    if not found:
        names = " and ".join(filter(None, [", ".join([*versions][:-1]), [*versions][-1]]))
        found.append(ok(f"{names}: {__version__}"))
    return found + _open_sessions(environment)


def parts(environment: Environment) -> dict[str, str]:
    """Return the version of each part whose version is known."""
    found = {
        "client": __version__,
        "daemon": environment.daemon_version,
        "plugin": environment.claude.plugin_version,
    }
    return {name: version for name, version in found.items() if version}


def remedy_for(name: str, version: str) -> str:
    """Return the remedy that brings a part to this client's version; empty if it has it."""
    if version == __version__:
        return ""
    if _numbers(version) > _numbers(__version__):
        return "This client is the older one: upgrade it, then: handoff restart"
    return "Run: handoff restart" if name == "daemon" else f"Run: {_UPDATE}"


def _numbers(version: str) -> list[int]:
    return [int(part) if part.isdigit() else 0 for part in version.split(".")]


def _open_sessions(environment: Environment) -> list[Finding]:
    """Return a finding if the session heard last still runs the plugin with which it began."""
    events = [
        event for event in (environment.status.get("hooks") or {}).values() if event["plugin"]
    ]
    if not events or not environment.claude.plugin_version:
        return []
    heard = max(events, key=lambda event: str(event["at"]))["plugin"]
    if heard == environment.claude.plugin_version:
        return []
    text = f"the session heard last runs the plugin {heard}, from before the update"
    return [note(text, "End it, and go on with: claude --continue")]
