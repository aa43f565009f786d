"""The small JSON files that Claude Code keeps beside its transcripts: read, never trusted."""

import os
import stat
from typing import Any

from handoff.common.safe_parsing import load_json

_SIZE_MAX_BYTES = 1 << 20


def read_json(path: str) -> dict[str, Any]:
    """Return what an object in a file holds; nothing of anything odd: a pipe, a list, too much.

    A dead mount may still hold one up: call it in a thread.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return {}
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            return {}
        found = load_json(os.read(handle, _SIZE_MAX_BYTES))
    except (OSError, ValueError):
        return {}
    finally:
        os.close(handle)
    return found if isinstance(found, dict) else {}
