"""Check for sessions that Claude Code deletes before they leave a handoff."""

import os
import shlex
from typing import Any

from handoff.doctor.environment import Environment
from handoff.doctor.finding import Finding, bad, explained, note, ok

_NAMED_MAX = 5
# The daemon lists no more sessions than this.
_LISTED_MAX = 100
# Long enough for most people, and a number that Claude Code accepts.
_LONGER_DAYS = 365


def examine(environment: Environment) -> list[Finding]:
    return _refused(environment) + judge(environment.known)


def _refused(environment: Environment) -> list[Finding]:
    """Return a finding if the period is zero days or no number of days.

    Claude Code then uses nothing of the file. With zero days, an older version writes no
    transcript.
    """
    days = environment.claude.settings.get("cleanupPeriodDays", _LONGER_DAYS)
    if isinstance(days, (int, float)) and not isinstance(days, bool) and days > 0:
        return []
    path = environment.claude.settings_file
    text = f"cleanupPeriodDays is {days} in {path}: Claude Code refuses that file, hooks and all"
    return [bad(text, f"Set it to a number of days, such as {_LONGER_DAYS}, or remove it.")]


def judge(known: dict[str, Any]) -> list[Finding]:
    """Return the sessions that are about to be deleted, and how to keep their content."""
    if not known:
        return []
    unsaved = known["unsaved"]
    found = [note(_sentence(item), f"Run: {_command(item)}") for item in unsaved[:_NAMED_MAX]]
    if len(unsaved) > _NAMED_MAX:
        number = f"{len(unsaved) - _NAMED_MAX} {'or ' if len(unsaved) >= _LISTED_MAX else ''}more"
        text = f"{number} sessions without a handoff will be deleted"
        files = ", ".join(
            f"{os.path.dirname(root['path'])}/settings.json" for root in known["roots"]
        )
        remedy = f'Keep them: "cleanupPeriodDays": {_LONGER_DAYS} in {files}'
        found.append(note(text, f"{remedy}. {explained('transcripts-ageing')}"))
    kept = " and ".join(
        f"{days:g}" for days in sorted({root["keep_days"] for root in known["roots"]})
    )
    return found or [ok(f"no work is lost when Claude Code deletes transcripts, after {kept} days")]


def _sentence(item: dict[str, Any]) -> str:
    days = item["in_days"]
    when = f"in {days:.0f} days" if days >= 1 else "at any time"
    goal = f" ({item['goal']})" if item["goal"] else ""
    return f"session {item['session_id'][:8]}{goal} left no handoff; Claude Code deletes it {when}"


def _command(item: dict[str, Any]) -> str:
    place = shlex.quote(item["project"])
    return f"handoff close --session {item['session_id']} --project {place}"
