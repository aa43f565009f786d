"""The client of handoffd, and its public Python interface.

Everything is loaded at the first use: importing this package must cost next to
nothing, because every hook of the editor does it.
"""

__version__ = "0.1.0"

_CHECKPOINT = (
    "find_project_root",
    "get_handoff_path",
    "load_handoff",
    "save_handoff",
    "update_handoff",
)
__all__ = ("Client", "__version__", *_CHECKPOINT)


def __getattr__(name):  # type: ignore[no-untyped-def]
    if name in _CHECKPOINT:
        from handoff import local

        return getattr(local.daemon_code(), name)
    if name == "Client":
        from handoff.client import Client

        return Client
    raise AttributeError(f"module 'handoff' has no attribute {name!r}")
