"""Slash commands: what a person, or the assistant itself, set going. Pure."""

from handoffd.agents.events import Commanded, Invoked
from handoffd.session.state import COMMANDS_MAX, Receipt, SessionState, SlashCommand
from handoffd.session.text import keep

_NAME_MAX, _ARGUMENTS_MAX = 80, 200
# They tell the client something, not the assistant.
_CLIENT_COMMANDS = frozenset(
    {
        "add-dir", "agents", "bashes", "branch", "bug", "cd", "clear", "color", "compact",
        "config", "context", "continue", "copy", "cost", "doctor", "effort", "exit", "export",
        "fast", "feedback", "fork", "help", "hooks", "ide", "keybindings", "login", "logout",
        "mcp", "memory", "model", "output-style", "permissions", "plugin", "plugins", "quit",
        "release-notes", "reload-plugins", "rename", "resume", "rewind", "stats", "status",
        "statusline", "tag", "tasks", "terminal-setup", "theme", "todos", "upgrade", "usage",
        "vim",
    }
)  # fmt: skip

# They hand off, or take up a handoff, and ask for no work themselves.
_HANDING_OVER = frozenset(
    {"close", "conductor-handoff", "create_handoff", "handoff-thread", "resume_handoff"}
)


def is_for_client(name: str) -> bool:
    return name in _CLIENT_COMMANDS


def is_handing_over(event: Commanded | Invoked) -> bool:
    """Return True if a command is about handoffs alone; "/open" may be given a request."""
    name = event.name.removeprefix("handoffd:")
    return name in _HANDING_OVER or (name == "open" and not event.arguments)


def in_words(event: Commanded) -> str:
    """Return a command as the request that it is; empty if it asks for no work."""
    if event.name.removeprefix("handoffd:") == "open":
        return event.arguments
    called = event.name.rsplit(":", 1)[-1].replace("-", " ").replace("_", " ")
    return f"{called}: {event.arguments}" if event.arguments else called


def note_command(state: SessionState, event: Commanded | Invoked, source: Receipt) -> None:
    """Remember the last commands, by the record that gave each."""
    name, arguments = keep(event.name, _NAME_MAX), keep(event.arguments, _ARGUMENTS_MAX)
    state.commands = [*state.commands, SlashCommand(name, arguments, source)][-COMMANDS_MAX:]
