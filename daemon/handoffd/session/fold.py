"""Records to session state. Pure: no clock, no disk; the same records give the same state."""

from collections.abc import Callable
from typing import Any

from handoffd.agents import events as e
from handoffd.agents.claude_code.record_events import CONVERSATION, KNOWN, READERS
from handoffd.agents.claude_code.records import Record
from handoffd.redaction.redact import redact
from handoffd.session import work
from handoffd.session.commands import in_words, is_for_client, note_command
from handoffd.session.commits import git_done, note_pull_request
from handoffd.session.dead_ends import note_refusal
from handoffd.session.file_ranking import age_files, looked, mention
from handoffd.session.goals import follow, is_going_on, is_substantial, name
from handoffd.session.injected import is_echo, note_injected
from handoffd.session.state import (
    DECISIONS_MAX,
    QUESTIONS_MAX,
    RECENT_UUIDS_MAX,
    UUID_KEPT,
    Receipt,
    SessionState,
    Value,
)
from handoffd.session.statements import hear, last_heard_time, statements
from handoffd.session.summary import read_summary
from handoffd.session.text import GOAL_MAX, NOW_MAX, PATH_MAX, heading, keep, plan_steps, request
from handoffd.session.todos import listed, planned

UNKNOWN_KINDS_MAX = 20
NAME_MAX = 40
PLAN_MAX = 64 << 10
# Records are not written strictly in the order of their times.
REORDERED_SECONDS = 60


def fold(state: SessionState, record: Record, transcript: str) -> bool:
    """Take one record into the state; False if it is only a copy of one that was taken.

    `transcript` names the file for the receipts.
    """
    if record.uuid and _is_copy(state, record):
        return False
    if record.is_sidechain:
        state.agent_records += 1
        state.agent_time = max(state.agent_time, record.timestamp[:NAME_MAX])
    else:
        state.records += 1
        _envelope(state, record, transcript)
    reader = READERS.get(record.type)
    if reader is not None:
        source = receipt(state, record, transcript)
        for event in reader(record):
            _FOLDS[type(event)](state, event, source)
    elif record.type not in KNOWN:
        _count(state.unknown, record.type or "(none)")
    return True


def receipt(state: SessionState, record: Record, transcript: str) -> Receipt:
    # The session's own transcript is named by the session already.
    where = "" if transcript == state.session_id else transcript
    # What names a record is short; a longer text there is none of ours to keep.
    return Receipt(
        where, record.uuid[:NAME_MAX], record.offset, record.timestamp[:NAME_MAX], "quoted"
    )


def _count(counters: dict[str, int], kind: str) -> None:
    kind = keep(kind, 40)
    if kind in counters or len(counters) < UNKNOWN_KINDS_MAX:
        counters[kind] = counters.get(kind, 0) + 1


def _is_copy(state: SessionState, record: Record) -> bool:
    """Tell a record that was appended again (seen after sleep, and in copied histories).

    The last ones are known by their uuid. Older ones are known by their time, and by hanging
    on to nothing that was taken lately; after a clock was set back they do.
    """
    uuid = record.uuid[:UUID_KEPT]
    recent = state.recent_uuids
    if uuid in recent:
        return True
    # A compaction begins a new chain: it hangs on to nothing, and is no copy.
    chained = not record.is_sidechain and record.subtype != "compact_boundary"
    if chained and record.timestamp < state.last_time:
        parent = (record.parent_uuid or "")[:UUID_KEPT]
        if parent not in recent and _is_long_before(record.timestamp, state.last_time):
            return True
    _remember(recent, uuid)
    return False


def _is_long_before(time: str, last: str) -> bool:
    """Tell whether a time is over a minute before the last; both are ISO 8601 in UTC."""
    if not time or time[:10] != last[:10]:
        return bool(time)
    return _second_of_day(last) - _second_of_day(time) > REORDERED_SECONDS


def _second_of_day(time: str) -> int:
    digits = time[11:13] + time[14:16] + time[17:19]
    if len(digits) != 6 or not digits.isascii() or not digits.isdigit():  # noqa: PLR2004  hhmmss
        return 0
    return int(digits[:2]) * 3600 + int(digits[2:4]) * 60 + int(digits[4:])


def _remember(uuids: dict[str, int], uuid: str) -> None:
    uuids[uuid] = 0
    if len(uuids) > RECENT_UUIDS_MAX:
        del uuids[next(iter(uuids))]


def _envelope(state: SessionState, record: Record, transcript: str) -> None:
    # The first cwd fixes the project: a `cd` in a tool call moves nothing.
    if not state.cwd:
        state.cwd = record.directory
    if not state.entrypoint:
        state.entrypoint = keep(record.entrypoint, NAME_MAX) if record.entrypoint else ""
    if record.type in CONVERSATION:
        time = record.timestamp[:NAME_MAX]
        if not state.first_time:
            state.first_time = time
        # A little earlier is out of order; much earlier is a clock that was set back.
        if time >= state.last_time or _is_long_before(time, state.last_time):
            state.last_time = time
    message = record.message
    if message and message.usage and message.model != "<synthetic>":
        if message.model != state.model:
            state.model = keep(message.model or "", 2 * NAME_MAX)
        state.usage = bytes(message.usage)
    branch = record.git_branch
    if branch and branch != "HEAD" and (state.branch is None or branch != state.branch.text):
        seen = receipt(state, record, transcript).observed
        kept = keep(branch, PATH_MAX)
        if state.branch is None or kept != state.branch.text:
            state.branch = Value(kept, seen)


def quote(text: str, source: Receipt, limit: int = NOW_MAX) -> Value:
    """Make a value of somebody's words."""
    return Value(keep(text, limit), source)


# What a person did


def _prompt(state: SessionState, event: e.Prompt, source: Receipt) -> None:
    state.prompts += 1
    value = quote(request(event.text), source, GOAL_MAX)
    if value.text:
        note_refusal(state, event.text, value)
        follow(state, value)
        _request(state, value)


def _request(state: SessionState, value: Value) -> None:
    """Take up a person's words: whoever types on has dealt with what was open."""
    state.last_prompt, state.activity, state.activity_kept = value, None, True
    state.waiting, state.waiting_for, state.spoke_last = None, "", False
    state.questions = []
    if not is_going_on(value.text):
        state.pending = []
    state.todos_age += 1
    mention(state, value.text)


def _commanded(state: SessionState, event: e.Commanded, source: Receipt) -> None:
    """Take a slash command for what it is: a request, if it is not for the client itself."""
    if is_for_client(event.name):
        return
    note_command(state, event, source)
    state.prompts += 1
    if not (words := in_words(event)):
        return
    value = quote(words, source, GOAL_MAX)
    if event.arguments:
        follow(state, value)
    _request(state, value)


def _stopped(state: SessionState, event: e.Stopped, source: Receipt) -> None:
    state.spoke_last, state.waiting_for = False, ""
    if event.error:
        state.waiting = quote(f"Stopped by an error: {event.error}", source.observed)
        return
    done = work.activity(state)
    at = f" at: {done.text}" if done else ""
    state.waiting = Value(f"Stopped by the person{at}", source.observed)
    state.activity, state.activity_kept = None, True


def _denied(state: SessionState, event: e.Denied, source: Receipt) -> None:
    state.waiting, state.activity, state.activity_kept = None, None, True
    work.note_denial(state, event, source)


def _decided(state: SessionState, event: e.Decided, source: Receipt) -> None:
    """Keep what a person decided; the questions are no longer open."""
    state.questions = []
    for question, answer in event.answers:
        state.decisions.append(quote(f"{question} {answer}", source))
    del state.decisions[:-DECISIONS_MAX]


def _approved(state: SessionState, event: e.Approved, source: Receipt) -> None:
    plan = redact(event.plan[:PLAN_MAX])[0]
    title = quote(heading(plan), source, GOAL_MAX)
    if title.text:
        name(state, title)
        _request(state, Value(f"Plan approved: {title.text}", source))
        state.pending = [quote(step, source) for step in plan_steps(plan)]
        state.decisions.append(quote(f"Plan approved: {title.text}", source))
        del state.decisions[:-DECISIONS_MAX]


# What the assistant did


def _said(state: SessionState, event: e.Said, source: Receipt) -> None:
    if state.waiting and state.waiting.text.startswith("Stopped by"):
        state.waiting = None
    state.spoke_last = not event.goes_on
    # What the client itself puts where an answer is missing.
    if event.text and not event.text.isspace() and event.text != "No response requested.":
        hear(state, event.text, source)
        mention(state, event.text)


def _resulted(state: SessionState, event: e.Resulted, source: Receipt) -> None:
    state.spoke_last = False
    if state.waiting_for in ("", event.call):
        state.waiting, state.waiting_for = None, ""
    work.finish(state, event, source)


def _asked(state: SessionState, event: e.Asked, source: Receipt) -> None:
    state.questions = [quote(text, source) for text in event.questions[:QUESTIONS_MAX]]
    first = state.questions[0].text if state.questions else "A question is open."
    state.waiting, state.spoke_last = Value(first, source), False
    state.waiting_for = event.call


def _proposed(state: SessionState, event: e.Proposed, source: Receipt) -> None:
    # Where the client keeps plans in files, the call itself is empty.
    _drafted(state, event, source)
    title = state.plan or Value("", source)
    asked = f"Approve the plan: {title.text}" if title.text else "Approve the plan."
    state.waiting, state.spoke_last = Value(asked, source), False
    state.waiting_for = event.call


def _drafted(state: SessionState, event: e.Drafted | e.Proposed, source: Receipt) -> None:
    title = quote(heading(event.plan), source, GOAL_MAX)
    state.plan = title if title.text else state.plan


# What the client noted


def _titled(state: SessionState, event: e.Titled, source: Receipt) -> None:
    value = quote(event.text, source, GOAL_MAX)
    if is_echo(value.text, state.injected):
        return
    if not event.by_person:
        state.title = value if value.text else state.title
    # A client names a session in a worktree after its branch: one word, and nobody's goal.
    elif " " in value.text or is_substantial(value.text):
        name(state, value)


def _compacted(state: SessionState, _event: e.Compacted, _source: Receipt) -> None:
    state.compactions += 1
    age_files(state)


def _summarised(state: SessionState, event: e.Summarised, source: Receipt) -> None:
    """Take the client's own summary for what it is: the goal, the work and what was pending."""
    found = {
        name: [quote(text, source, GOAL_MAX) for text in texts if not is_echo(text, state.injected)]
        for name, texts in read_summary(event.text).items()
    }
    state.pending = found.get("pending", [])
    if found.get("goal") and not (state.goal and state.goal.text in state.named):
        state.goal = found["goal"][0]
    # The client may write it down only after the answer that came upon it.
    if found.get("now") and last_heard_time(state) <= source.time:
        hear(state, found["now"][0].text, source)
        state.spoke_last = False


def _recapped(state: SessionState, event: e.Recapped, source: Receipt) -> None:
    hear(state, event.text, source)


def _aimed(state: SessionState, event: e.Aimed, source: Receipt) -> None:
    goal = quote(event.condition, source, GOAL_MAX)
    name(state, goal)
    if state.goal and state.goal.text == goal.text:
        state.aim_met = event.met


def _opened(state: SessionState, event: e.Opened, source: Receipt) -> None:
    note_pull_request(state, event.number, event.url, source.observed)


def _injected(state: SessionState, event: e.Injected, _source: Receipt) -> None:
    statements(state)  # what was said before it is no echo of it
    note_injected(state, event.text)


def _moved(state: SessionState, event: e.Moved, _source: Receipt) -> None:
    state.cwd, state.root = event.cwd, ""


_FOLDS: dict[type, Callable[[SessionState, Any, Receipt], None]] = {
    e.Prompt: _prompt,
    e.Commanded: _commanded,
    e.Shelled: work.shelled,
    e.Said: _said,
    e.Stopped: _stopped,
    e.Notified: work.notified,
    e.Moved: _moved,
    e.Titled: _titled,
    e.Compacted: _compacted,
    e.Summarised: _summarised,
    e.Recapped: _recapped,
    e.Aimed: _aimed,
    e.Opened: _opened,
    e.Injected: _injected,
    e.Edited: work.edited,
    e.Looked: looked,
    e.Ran: work.ran,
    e.Asked: _asked,
    e.Proposed: _proposed,
    e.Drafted: _drafted,
    e.Denied: _denied,
    e.Resulted: _resulted,
    e.Approved: _approved,
    e.Decided: _decided,
    e.GitDone: git_done,
    e.Invoked: note_command,
    e.Listed: listed,
    e.Planned: planned,
}
