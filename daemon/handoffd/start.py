"""Starting the daemon, with as little in memory as can be."""

import sys

from handoff.errors import EXIT_FAILED, HandoffError


def start(config_path: str, log_file: str | None) -> int:
    """Run until told to stop; returns the exit code."""
    _leave_out_openssl()
    try:
        from handoffd.app import run  # noqa: PLC0415  not before OpenSSL is out of the way

        run(config_path, log_file)
    except HandoffError as problem:
        print(f"handoffd: {problem}", file=sys.stderr)  # noqa: T201
        return problem.exit_code
    except OSError as problem:
        print(f"handoffd: {problem}", file=sys.stderr)  # noqa: T201
        return EXIT_FAILED
    return 0


def _leave_out_openssl() -> None:
    """Import what would load OpenSSL without it: a tenth of our memory, for nothing we use.

    asyncio, hashlib and secrets all work without; whoever needs it later can still import it.
    """
    hidden = ("ssl", "_ssl", "_hashlib")
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]  # None: not to be found
    import asyncio  # noqa: F401, PLC0415
    import hashlib  # noqa: F401, PLC0415
    import secrets  # noqa: F401, PLC0415

    for name in hidden:
        del sys.modules[name]
