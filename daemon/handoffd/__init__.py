"""handoffd: keeps the handoff of every Claude Code project current."""

from handoff import __version__

__all__ = ("__version__",)
