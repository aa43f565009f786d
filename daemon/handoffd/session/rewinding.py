"""Take back a branch of the conversation, or edits, that a person rewound. Pure.

The transcript is a tree. A prompt that hangs on the same record as an earlier one is its sibling:
the later one is live, and everything from the earlier one on is dead. Each value has a receipt, so
the dead values are known by their place. Whether the edits of the dead branch stand is told by the
client's next statement of the files' contents; without one they are taken back.
"""

from handoffd.agents.events import BackedUp
from handoffd.session.file_ranking import absolute_path, file_of, is_ours
from handoffd.session.state import REWOUND_MAX, File, Receipt, SessionState, Value, Work

# The first kept content of a file, or none, is what was there before the session edited it.
UNTOUCHED = 1


def note_prompt(state: SessionState) -> None:
    """Remember how often each file was edited before a prompt."""
    for file in state.files:
        file.edits_before = file.edits


def backed_up(state: SessionState, event: BackedUp, source: Receipt) -> None:
    """Take back the edits of files whose content is an earlier one again."""
    asked = state.last_prompt
    at_prompt = bool(asked and event.prompt == asked.receipt.uuid)
    known = {file.path: file for file in (*state.files, *state.taken_back)}
    for told, version in event.versions:
        path = absolute_path(state, told)
        file = known.get(path)
        if file is None and path and not event.prompt and is_ours(state, path):
            # The client may state the content before the record of the edit is written.
            file = file_of(state, path, source.observed)
        if file is None:
            continue
        if not event.prompt or version <= UNTOUCHED:
            file.versions.setdefault(version, 0)
        if not event.prompt:
            continue
        edits = file.edits_before if at_prompt else file.edits
        if version not in file.versions:
            file.versions[version] = edits
            if file in state.taken_back:
                state.files.append(file)  # the conversation was rewound, and the file was not
        elif file.versions[version] < edits and file not in state.taken_back:
            _set_edits(file, file.versions[version] + file.edits - edits)
    if event.prompt:
        undone = any(file.edits <= 0 and file.attention <= 0 for file in state.files)
        state.files = [file for file in state.files if file.edits > 0 or file.attention > 0]
        state.backed_up_for = event.prompt
        state.taken_back = []
        if undone:
            _drop_undone_requests(state)


def _drop_undone_requests(state: SessionState) -> None:
    """Drop the requests of which no edit is left: their work was taken back."""
    last = max((file.edited_at for file in state.files if file.edits > 0), default=-1)
    undone = [item for item in state.requests if item.edits and item.at > last]
    state.requests = [item for item in state.requests if item not in undone]
    state.edited_at = max(last, 0)
    if state.work and any(state.work.request == item.value for item in undone):
        state.work = Work(state.requests[-1].value) if state.requests else None
        state.rewound = [*state.rewound, *(item.value.text for item in undone)][-REWOUND_MAX:]


def _set_edits(file: File, edits: int) -> None:
    file.edits, file.edits_before = edits, min(edits, file.edits_before)
    file.versions = {version: at for version, at in file.versions.items() if at <= edits}
    if edits <= 0:
        file.attention = 0


def rewind(state: SessionState, place: Receipt, prompt: str) -> None:
    """Drop everything that the transcript says from this place on, up to the record of a prompt."""

    def lives(receipt: Receipt) -> bool:
        return receipt.transcript != place.transcript or receipt.offset < place.offset

    def living(values: list[Value]) -> list[Value]:
        return [value for value in values if lives(value.receipt)]

    dead = [item.value.text for item in state.requests if not lives(item.value.receipt)]
    state.rewound = [*state.rewound, *dead][-REWOUND_MAX:]
    state.requests = [item for item in state.requests if lives(item.value.receipt)]
    state.statements = [item for item in state.statements if lives(item.opening.receipt)]
    state.unread = [item for item in state.unread if lives(item[1])]
    state.last_read = None
    state.steps = [item for item in state.steps if lives(item.value.receipt)]
    state.todos = [item for item in state.todos if lives(item.value.receipt)]
    state.checks = [item for item in state.checks if lives(item.receipt)]
    state.unseen = living(state.unseen)
    state.failures = [item for item in state.failures if lives(item.error.receipt)]
    state.decisions, state.rules = living(state.decisions), living(state.rules)
    state.dead_ends, state.questions = living(state.dead_ends), living(state.questions)
    state.dropped = [item for item in state.dropped if lives(item.value.receipt)]
    state.plan = state.plan if state.plan and lives(state.plan.receipt) else None
    state.recap = state.recap if state.recap and lives(state.recap.receipt) else None
    if state.backed_up_for != prompt:
        _doubt_edits(state, place)
    state.edits, state.calls = [], {}
    _rewind_work(state, place)
    state.waiting, state.waiting_for = None, ""
    state.spoke_last = bool(state.statements or state.unread)
    state.last_prompt = state.requests[-1].value if state.requests else None
    state.edited_at = max((file.edited_at for file in state.files if file.edits > 0), default=0)


def _doubt_edits(state: SessionState, place: Receipt) -> None:
    """Take back the edits of the dead branch, until the client tells whether they stand."""
    dead = [file for file in state.files if file.edits > 0 and file.first_edit >= place.offset]
    state.taken_back = dead
    state.files = [file for file in state.files if file not in dead]


def _rewind_work(state: SessionState, place: Receipt) -> None:
    work = state.work
    if work is None:
        return
    if work.request.receipt.offset >= place.offset:
        # The work itself began in the dead branch.
        before = state.previous_goal
        alive = before is not None and before.receipt.offset < place.offset
        state.work = Work(before) if before and alive else None
        state.previous_goal, state.named = None, []
        return
    work.names = {
        kind: value for kind, value in work.names.items() if value.receipt.offset < place.offset
    }
    alive_paths = {file.path for file in state.files if file.edits > 0}
    work.files = [path for path in work.files if path in alive_paths]
    work.edits = len(work.files)
