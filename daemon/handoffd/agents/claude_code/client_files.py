"""Read the small JSON files that Claude Code keeps beside its transcripts. They are not trusted."""

import os
import stat
from typing import Any

from handoff.common.safe_parsing import load_json

_SIZE_MAX_BYTES = 1 << 20


def read_json(path: str) -> dict[str, Any]:
    """Return the JSON object in a file; empty for anything odd: a pipe, a list, too many bytes.

    A dead mount can still block the call, so call it in a thread.
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
