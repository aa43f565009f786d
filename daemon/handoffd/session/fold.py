"""Records to session state. Pure: no clock, no disk; the same records give the same state."""

from collections.abc import Callable
from typing import Any

from handoffd.agents import events as e
from handoffd.agents.claude_code.record_events import CONVERSATION, KNOWN, READERS
from handoffd.agents.claude_code.records import Record
from handoffd.agents.claude_code.tool_events import output_text
from handoffd.redaction.redact import redact
from handoffd.session import checks, dropped, requests, rules, steps, work
from handoffd.session.commands import in_words, is_for_client, is_handing_over, note_command
from handoffd.session.commits import git_done, note_pull_request
from handoffd.session.dead_ends import note_refusal
from handoffd.session.documents import title_of
from handoffd.session.file_ranking import age_files, looked, mention
from handoffd.session.file_ranking import now as now_of
from handoffd.session.injected import is_echo, note_injected
from handoffd.session.rewinding import backed_up, note_prompt, rewind
from handoffd.session.state import (
    QUESTIONS_MAX,
    QUEUED_MAX,
    RECENT_UUIDS_MAX,
    UUID_KEPT,
    Receipt,
    SessionState,
    Value,
)
from handoffd.session.statements import hear, last_answer, last_heard_time, statements
from handoffd.session.summary import read_recap, read_summary, without_hint
from handoffd.session.text import (
    GOAL_MAX,
    NOW_MAX,
    PATH_MAX,
    RECAP_MAX,
    heading,
    keep,
    plan_steps,
    request,
    says_the_same,
    weight,
)
from handoffd.session.todos import listed, planned

UNKNOWN_KINDS_MAX = 20
# The parent of a prompt at the root of the conversation.
_ROOT = "root"
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


# Events of a person


def _prompt(state: SessionState, event: e.Prompt, source: Receipt) -> None:
    parent = event.parent if event.parent != "" else _ROOT
    if parent and (place := requests.rewind(state, parent)):
        rewind(state, place, source.uuid)
    note_prompt(state)
    state.prompts += 1
    value = quote(request(event.text), source, GOAL_MAX)
    if value.text:
        note_refusal(state, event.text, value)
        _request(state, value, parent)
        rules.note(state, event.text, source)


def _request(
    state: SessionState, value: Value, parent: str | None = None, *, command: bool = False
) -> None:
    """Take up a person's words; they answer the question that was open."""
    _end_turn(state, goes_on=requests.is_continuing(value.text))
    entered = requests.enter(state, value, parent or "", now_of(state), command=command)
    if entered.answers and not entered.going_on and weight(value.text) < requests.RICH:
        rules.decide(state, f"{entered.answers} {value.text}", value.receipt)
    state.last_prompt, state.activity, state.activity_kept = value, None, True
    state.waiting, state.waiting_for, state.spoke_last = None, "", False
    state.questions, state.handing_over = [], False
    state.queued = [item for item in state.queued if item.text != value.text]
    state.todos_age += 1
    dropped.note_mention(state, value.text)
    mention(state, value.text)


def _shelled(state: SessionState, event: e.Shelled, source: Receipt) -> None:
    """Take a person's own `!` command; it is a request if the session begins with it."""
    if event.command and not state.requests:
        state.prompts += 1
        _request(state, quote(f"!{event.command}", source, GOAL_MAX))
    work.shelled(state, event, source)


def _end_turn(state: SessionState, *, goes_on: bool = False) -> None:
    """Let the end of a turn close the steps that it reports, and open those that it names."""
    said = last_answer(state) if state.spoke_last else None
    if said is None or not state.requests or state.requests[-1].answered:
        return
    steps.close_reported(state, goes_on=goes_on)
    if said.steps:
        found = [Value(text, said.opening.receipt) for text in said.steps]
        steps.replace(state, steps.STATEMENT, found)


def _queued(state: SessionState, event: e.Queued, source: Receipt) -> None:
    """Keep a prompt that was typed during work until it is taken up."""
    state.queued = [*state.queued, quote(request(event.text), source, GOAL_MAX)][-QUEUED_MAX:]


def _unqueued(state: SessionState, event: e.Unqueued, _source: Receipt) -> None:
    del state.queued[: event.number]


def _commanded(state: SessionState, event: e.Commanded, source: Receipt) -> None:
    """Take a slash command as a request, unless it is for the client itself or for us."""
    if is_for_client(event.name):
        return
    note_command(state, event, source)
    state.prompts += 1
    if is_handing_over(event):
        _end_turn(state)
        requests.end_turn(state)
        state.handing_over = True
        return
    value = quote(in_words(event), source, GOAL_MAX)
    if value.text:
        _request(state, value, command=True)


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
    rules.note(state, event.words, source)


def _decided(state: SessionState, event: e.Decided, source: Receipt) -> None:
    """Keep a person's answers as decisions; the questions are no longer open."""
    state.questions = []
    for question, answer in event.answers:
        rules.decide(state, f"{question} {answer}", source)


def _approved(state: SessionState, event: e.Approved, source: Receipt) -> None:
    plan = redact(event.plan[:PLAN_MAX])[0]
    title = quote(heading(plan), source, GOAL_MAX)
    if title.text and not is_echo(title.text, state.injected):
        requests.name(state, requests.PLAN, title)
        found = [quote(step, source) for step in plan_steps(plan)]
        found = [step for step in found if not is_echo(step.text, state.injected)]
        steps.replace(state, steps.PLAN, found)
        rules.decide(state, f"Plan approved: {title.text}", source)
        state.waiting, state.waiting_for, state.questions = None, "", []


# Events of the assistant


def _said(state: SessionState, event: e.Said, source: Receipt) -> None:
    if state.handing_over:
        return
    if state.waiting and state.waiting.text.startswith("Stopped by"):
        state.waiting = None
    state.spoke_last = not event.goes_on
    # The client itself puts these words where an answer is missing.
    if event.text and not event.text.isspace() and event.text != "No response requested.":
        hear(state, event.text, source)
        dropped.note_mention(state, event.text)
        mention(state, event.text)


def _invoked(state: SessionState, event: e.Invoked, source: Receipt) -> None:
    note_command(state, event, source)
    if is_handing_over(event) and not state.handing_over:
        requests.withdraw(state)
        state.handing_over = True


def _resulted(state: SessionState, event: e.Resulted, source: Receipt) -> None:
    if state.handing_over:
        return
    state.spoke_last = False
    if state.waiting_for in ("", event.call):
        state.waiting, state.waiting_for = None, ""
    if state.document_call and state.document_call == event.call:
        state.document_call = ""
        title = quote(title_of(output_text(event.output)), source.observed)
        if not event.failed and not is_echo(title.text, state.injected):
            requests.name(state, requests.DOCUMENT, title)
    work.finish(state, event, source)


def _looked(state: SessionState, event: e.Looked, source: Receipt) -> None:
    looked(state, event, source)
    _points_to(state, event.call, event.path)


def _ran(state: SessionState, event: e.Ran, source: Receipt) -> None:
    if state.handing_over:
        return
    work.ran(state, event, source)
    _points_to(state, event.call, event.command)


def _points_to(state: SessionState, call: str, target: str) -> None:
    """Wait for the document that the request points to: its title names the work."""
    asked = requests.current(state)
    if asked is None or state.document_call or asked.edits or asked.answered:
        return
    if state.work is None or requests.DOCUMENT in state.work.names:
        return
    if requests.is_pointer(asked.value.text) and requests.is_document(target):
        state.document_call = call


def _edited(state: SessionState, event: e.Edited, source: Receipt) -> None:
    path = work.edited(state, event, source)
    if path and event.call:
        requests.note_edit(state, path)


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


# Events of the client


def _titled(state: SessionState, event: e.Titled, source: Receipt) -> None:
    value = quote(event.text, source, GOAL_MAX)
    if is_echo(value.text, state.injected) or not value.text:
        return
    if any(says_the_same(value.text, dead) for dead in state.rewound):
        return
    if not event.by_person:
        if state.title is None or state.title.text != value.text:
            state.title = value
            requests.name(state, requests.TITLE, value)
    # A client names a session in a worktree after its branch: one word, and nobody's goal.
    elif " " in value.text:
        requests.name(state, requests.PERSON, value)


def _compacted(state: SessionState, _event: e.Compacted, _source: Receipt) -> None:
    state.compactions += 1
    age_files(state)


def _summarised(state: SessionState, event: e.Summarised, source: Receipt) -> None:
    """Take the goal, the current work and the pending steps from the client's own summary."""
    found = {
        name: [quote(text, source, GOAL_MAX) for text in texts if not is_echo(text, state.injected)]
        for name, texts in read_summary(event.text).items()
    }
    state.dropped = dropped.compare(state, event.text)
    steps.replace(state, steps.SUMMARY, found.get("pending", []))
    if found.get("goal"):
        requests.name(state, requests.RECAP, found["goal"][0])
    # The client may write it down only after the answer that came upon it.
    if found.get("now") and last_heard_time(state) <= source.time:
        hear(state, found["now"][0].text, source)
        state.spoke_last = False


def _recapped(state: SessionState, event: e.Recapped, source: Receipt) -> None:
    """Keep the client's recap; its first sentence names the work."""
    state.recap = quote(without_hint(event.text), source, RECAP_MAX)
    goal, _ = read_recap(state.recap.text)
    if goal and not is_echo(goal, state.injected):
        requests.name(state, requests.RECAP, Value(goal, source))


def _aimed(state: SessionState, event: e.Aimed, source: Receipt) -> None:
    goal = quote(event.condition, source, GOAL_MAX)
    requests.name(state, requests.PERSON, goal)
    known = state.work.names.get(requests.PERSON) if state.work else None
    if known and known.text == goal.text:
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
    e.Shelled: _shelled,
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
    e.Edited: _edited,
    e.Looked: _looked,
    e.Ran: _ran,
    e.OutputRead: checks.output_read,
    e.AgentRan: checks.agent_ran,
    e.AgentResulted: checks.agent_resulted,
    e.Asked: _asked,
    e.Proposed: _proposed,
    e.Drafted: _drafted,
    e.Denied: _denied,
    e.Resulted: _resulted,
    e.Approved: _approved,
    e.Decided: _decided,
    e.GitDone: git_done,
    e.Invoked: _invoked,
    e.Queued: _queued,
    e.Unqueued: _unqueued,
    e.BackedUp: backed_up,
    e.Listed: listed,
    e.Planned: planned,
}
