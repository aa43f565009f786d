"""Take the lock, then start the daemon."""

import os
import sys

from handoff.common.errors import EXIT_FAILED, HandoffError
from handoff.common.plain_text import plain
from handoff.common.remedies import remedy
from handoffd.runtime import memory
from handoffd.runtime.directories import make_state_dir
from handoffd.runtime.lock import hold


def start(config_path: str, log_file: str | None) -> int:
    """Run the daemon until it is told to stop, and return the exit code."""
    memory.use_one_heap()
    os.umask(0o077)
    try:
        directory = make_state_dir()
        hold(f"{directory}/handoffd.lock")  # a second daemon ends here, and loads nothing more
        from handoffd.app import run  # noqa: PLC0415

        run(directory, config_path, log_file)
    except HandoffError as problem:
        print(plain(f"handoffd: {problem}"), file=sys.stderr)  # noqa: T201
        return problem.exit_code
    except OSError as problem:
        text = f"handoffd: {problem}\n{remedy(problem)}".strip()
        print(plain(text), file=sys.stderr)  # noqa: T201
        return EXIT_FAILED
    return 0
