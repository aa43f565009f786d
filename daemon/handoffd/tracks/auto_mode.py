"""Which of the two modes is meant where nobody says so."""

from handoffd.tracks.resume import newest_age_days
from handoffd.tracks.work_context import WorkContext


def decide(ports: WorkContext, *, in_session: bool, unwritten: bool) -> tuple[str, str]:
    """Return `resume` or `create`, and why: a session's first message takes up what was left.

    A slash command asks before its own message is in the transcript.
    """
    prompts = (ports.state.prompts if ports.state else 0) + unwritten
    if not in_session:
        return "create", "no session is named"
    if prompts > 1:
        return "create", f"the session is at its message {prompts}"
    age_days = newest_age_days(ports)
    limit_days = ports.conductor.settings().stale_days
    if age_days is None:
        return "create", "there is no record to resume"
    if age_days >= limit_days:
        return "create", f"Stale handoff: the newest record is {age_days:.0f} days old"
    return "resume", "the session is at its first message"
