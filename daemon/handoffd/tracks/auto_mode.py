"""Chooses between CREATE and RESUME if the mode is not given."""

from handoffd.tracks.resume import newest_age_days
from handoffd.tracks.work_context import WorkContext


def decide(work: WorkContext, *, in_session: bool, unwritten: bool) -> tuple[str, str]:
    """Return `resume` or `create`, and the reason: a session's first message resumes the work.

    `unwritten` counts one message more: a slash command runs before its own message is in the
    transcript.
    """
    prompts = (work.state.prompts if work.state else 0) + unwritten
    if not in_session:
        return "create", "no session is named"
    if prompts > 1:
        return "create", f"the session is at its message {prompts}"
    age_days = newest_age_days(work)
    limit_days = work.conductor.settings().stale_days
    if age_days is None:
        return "create", "there is no record to resume"
    if age_days >= limit_days:
        return "create", f"Stale handoff: the newest record is {age_days:.0f} days old"
    return "resume", "the session is at its first message"
