"""Starting the daemon, with as little in memory as can be."""

import importlib
import os
import sys
import tomllib
from types import ModuleType

from handoff.errors import EXIT_FAILED, HandoffError
from handoff.remedies import remedy
from handoffd import memory
from handoffd.lock import hold
from handoffd.paths import make_state_dir


def start(config_path: str, log_file: str | None) -> int:
    """Run until told to stop; returns the exit code."""
    memory.use_one_heap()
    os.umask(0o077)
    try:
        directory = make_state_dir()
        hold(f"{directory}/handoffd.lock")  # one that is not needed loads nothing more
        if not _wants_http(config_path):
            _leave_out_needless()
        from handoffd.app import run  # noqa: PLC0415  not before what is needless is out of the way

        run(directory, config_path, log_file)
    except HandoffError as problem:
        print(f"handoffd: {problem}", file=sys.stderr)  # noqa: T201
        return problem.exit_code
    except OSError as problem:
        print(f"handoffd: {problem}\n{remedy(problem)}".strip(), file=sys.stderr)  # noqa: T201
        return EXIT_FAILED
    return 0


def _wants_http(config_path: str) -> bool:
    """Look whether the HTTP door is wanted, which may need TLS; what is broken is said later."""
    try:
        with open(config_path, "rb") as stream:
            found = tomllib.load(stream).get("http")
    except (OSError, ValueError):
        return False
    return isinstance(found, dict) and found.get("enabled") is True


def _leave_out_needless() -> None:
    """Import what would load OpenSSL and more without it: a sixth of our memory, for nothing.

    asyncio, hashlib, secrets and shutil all work without. pydantic and APScheduler would read the
    metadata of every installed package in search of plug-ins, of which we want none. Whoever
    needs one of these later can still import it.
    """
    none = ModuleType("importlib.metadata")
    none.__dict__.update(
        version=lambda _name: "0",
        entry_points=lambda **_: (),
        distributions=lambda **_: (),
        PackageNotFoundError=ImportError,
    )
    hidden = ("ssl", "_ssl", "_hashlib", "bz2", "lzma")
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]  # None: not to be found
    sys.modules[none.__name__] = none
    importlib.metadata = none
    import handoffd.app  # noqa: F401, PLC0415

    for name in (*hidden, none.__name__):
        del sys.modules[name]
    del importlib.metadata
