"""The client of handoffd, and its public Python interface.

Its names are loaded at their first use. The import of this package must cost next to nothing,
because every hook of the editor imports it.
"""

__version__ = "0.1.0"

# The names of the specification of handoff.yaml, and those of the program that it comes from.
FLOW_GUARDIAN_DIR = ".flow-guardian"
HANDOFF_FILE = "handoff.yaml"
VALID_STATUSES = frozenset({"in_progress", "completed", "blocked"})

__all__ = [
    "FLOW_GUARDIAN_DIR",
    "HANDOFF_FILE",
    "VALID_STATUSES",
    "Client",
    "HandoffError",
    "HandoffValidationError",
    "__version__",
    "clear_handoff",
    "find_project_root",
    "get_handoff_path",
    "load_handoff",
    "save_handoff",
    "update_handoff",
]


def __getattr__(name: str) -> object:
    if name == "Client":
        from handoff.client import Client

        return Client
    if name in ("HandoffError", "HandoffValidationError"):
        from handoff.common import errors

        return getattr(errors, name)
    if name in __all__:
        from handoff import local

        return getattr(local.daemon_code(), name)
    raise AttributeError(f"module 'handoff' has no attribute {name!r}")
