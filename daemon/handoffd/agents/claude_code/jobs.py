"""Find the background agents of Claude Code: each has a file `jobs/<id>/state.json`.

The files outlive their agents, and hold settings of the client that are none of our business: only
the fields below are taken. No client is asked or started.
"""

import os
import re
from collections.abc import Iterable

from handoffd.agents.agent import BackgroundJob
from handoffd.agents.claude_code.client_files import read_json

_JOBS_MAX = 64
_TEXT_MAX = 2000
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}\Z")
# In these states an agent does no more work unless it is asked to.
FINISHED = ("done", "completed", "stopped", "failed", "killed")


def background_jobs(config_dirs: Iterable[str], since: float) -> list[BackgroundJob]:
    """Return the background agents whose files changed since a time."""
    found = []
    for directory in config_dirs:
        for changed, name in _changed(f"{directory}/jobs", since):
            data = read_json(f"{directory}/jobs/{name}/state.json")
            texts = {key: data.get(key) for key in ("sessionId", "cwd", "state", "intent")}
            session_id, cwd, state, intent = (
                text[:_TEXT_MAX] if isinstance(text, str) else "" for text in texts.values()
            )
            if data:
                finished = state in FINISHED
                job = BackgroundJob(session_id or name, cwd, state, intent, changed, finished)
                found.append(job)
    return found


def _changed(directory: str, since: float) -> list[tuple[float, str]]:
    """Return the jobs that changed since a time, the latest first."""
    try:
        names = [name for name in os.listdir(directory) if _NAME.match(name)]
    except OSError:
        return []
    times = []
    for name in names:
        try:
            changed = os.stat(f"{directory}/{name}/state.json", follow_symlinks=False).st_mtime
        except OSError:
            continue
        times.append((changed, name))
    return sorted((found for found in times if found[0] >= since), reverse=True)[:_JOBS_MAX]
