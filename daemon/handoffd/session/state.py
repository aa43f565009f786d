"""The fold of a session's events, and every value with its receipt. Pure.

The fold keeps evidence in windows that do not grow with the session's age. The values that follow
from it are computed when they are needed (session/insights.py).
"""

from typing import NamedTuple

import msgspec

# Raise it when the meaning of a stored fold changes: older ones are folded anew.
FOLD_VERSION = 10
FILES_MAX = 120
TODOS_MAX = 40
QUESTIONS_MAX = 5
DECISIONS_MAX = 10
RULES_MAX = 8
REQUESTS_MAX = 12
WORK_FILES_MAX = 30
STEPS_MAX = 12
QUEUED_MAX = 5
REWOUND_MAX = 4
STATEMENTS_MAX = 12
CALLS_MAX = 16
CHECKS_MAX = 8
FAILURES_MAX = 12
EDITS_MAX = 48
COMMITS_MAX = 10
COMMANDS_MAX = 8
DEAD_ENDS_MAX = 8
INJECTED_MAX = 24
DROPPED_MAX = 6
RECENT_UUIDS_MAX = 128
UUID_KEPT = 12


class Receipt(NamedTuple):
    """Where a claim comes from; its class is observed, quoted or inferred."""

    transcript: str
    uuid: str
    offset: int
    time: str
    evidence: str

    @property
    def observed(self) -> "Receipt":
        """The same place, for what was seen there instead of said."""
        return Receipt(self.transcript, self.uuid, self.offset, self.time, "observed")


class Value(NamedTuple):
    """Something we say about a session, and why."""

    text: str
    receipt: Receipt


class Todo(NamedTuple):
    """A thing to do: its key, its status, its text with the receipt."""

    key: str
    status: str
    value: Value


class SlashCommand(NamedTuple):
    """A slash command and what was typed behind it."""

    name: str
    arguments: str
    receipt: Receipt


class Statement(NamedTuple):
    """A statement of the assistant, read: its beginning and its end, and the claims in it."""

    opening: Value
    ending: str = ""
    # The next step, if the statement ends by announcing it.
    intention: str = ""
    theory: str = ""
    # Sentences that confirm or refute a theory: (confirmed, sentence).
    verdicts: tuple[tuple[bool, str], ...] = ()
    # A question that the work waits for, and an offer of further work.
    question: str = ""
    offer: str = ""
    done: bool = False
    # The work that it calls unfinished.
    steps: tuple[str, ...] = ()


class Request(msgspec.Struct, gc=False):
    """A person's request, and the deeds that followed it."""

    value: Value
    # The record that it hangs on: a later request on the same record was made after a rewind.
    parent: str = ""
    at: int = 0
    # The question or the offer that it answers.
    answers: str = ""
    # It is a slash command.
    command: bool = False
    # It only asks to go on.
    going_on: bool = False
    # It may begin another piece of work; the first edit decides.
    maybe_new: bool = False
    edits: int = 0
    # The assistant has ended its turn on it.
    answered: bool = False


class Work(msgspec.Struct, gc=False):
    """A piece of work: the request that began it, the names that it was given, its files."""

    request: Value
    # By kind: see session/requests.py.
    names: dict[str, Value] = {}
    files: list[str] = []
    edits: int = 0
    # The branch of its last edit.
    branch: str = ""


class Step(NamedTuple):
    """A step still to be done; its group is a plan, a summary or a statement."""

    value: Value
    group: str
    # How many requests there were when it was entered.
    requests: int


class File(msgspec.Struct, gc=False):
    """A file the session worked on; `at` counts records, so that later means more recent."""

    path: str
    receipt: Receipt
    edits: int = 0
    attention: int = 0
    at: int = 0
    edited_at: int = 0
    # The offset of the record with its first edit.
    first_edit: int = 0
    # How many edits there were at the last prompt, and at each content that the client kept.
    edits_before: int = 0
    versions: dict[int, int] = {}


class Call(NamedTuple):
    """A command or an edit whose result is still to come."""

    id: str
    command: str
    path: str
    # The command in the background whose output is read.
    reads: str = ""


class Edit(NamedTuple):
    """An edit by checksums, to recognise it when it is taken back."""

    path: str
    before: int
    after: int


class Check(msgspec.Struct, gc=False):
    """The last result of one test command."""

    command: str
    green: bool
    summary: str
    receipt: Receipt
    at: int = 0


class Failure(msgspec.Struct, gc=False):
    """A command that failed and has not succeeded since."""

    command: str
    count: int
    error: Value


class Dropped(NamedTuple):
    """An item that the summary of a compaction does not mention: its kind, and its words."""

    kind: str
    value: Value


class SessionState(msgspec.Struct, omit_defaults=True):
    """What is known of one session. Bounded: it does not grow with the session's age."""

    session_id: str
    cwd: str = ""
    # The root of its project: found on disk once, then kept, whatever happens to the directory.
    root: str = ""
    entrypoint: str = ""
    first_time: str = ""
    last_time: str = ""
    model: str = ""
    # What the last answer took, as the client noted it; read when somebody asks.
    usage: bytes = b""
    context_tokens: int = 0
    records: int = 0
    agent_records: int = 0
    # Of its sub-agents' records the latest: as long as they work, so does it.
    agent_time: str = ""
    prompts: int = 0
    compactions: int = 0
    branch: Value | None = None
    # The current piece of work, and the goal of the one before it.
    work: Work | None = None
    previous_goal: Value | None = None
    requests: list[Request] = []
    # The last requests that were rewound: a title may still repeat them.
    rewound: list[str] = []
    # The client's title, and the last pull request's.
    title: Value | None = None
    pull_request_title: Value | None = None
    # The title of the plan that was written last.
    plan: Value | None = None
    # The client checks a goal for the person: whether it is met.
    aim_met: bool | None = None
    # The names that were taken for the goal; a client repeats them for ever.
    named: list[str] = []
    # Why the session waits for a person: a question, or the error that stopped it.
    waiting: Value | None = None
    # The call whose result ends the waiting.
    waiting_for: str = ""
    # The last request of a person, and the last activity for it.
    last_prompt: Value | None = None
    activity: Value | None = None
    activity_kept: bool = True
    # A command of ours is being answered: its answer is no work.
    handing_over: bool = False
    statements: list[Statement] = []
    # The last statements, not read yet: most of them are pushed out before they are needed.
    unread: list[tuple[str, Receipt]] = []
    # The last of them, read.
    last_read: Statement | None = None
    # The assistant spoke last, and no tool has been at work since.
    spoke_last: bool = False
    # The client's recap at a pause.
    recap: Value | None = None
    # Prompts that were typed during work and not taken up yet.
    queued: list[Value] = []
    steps: list[Step] = []
    # The call that reads the document to which the request points.
    document_call: str = ""
    files: list[File] = []
    # Files whose edits a rewound branch made, until the client tells whether they stand; and the
    # prompt for which it has told.
    taken_back: list[File] = []
    backed_up_for: str = ""
    todos: list[Todo] = []
    # How many requests came since the list last changed.
    todos_age: int = 0
    # When the client's task files last changed that were taken.
    tasks_at: int = 0
    questions: list[Value] = []
    decisions: list[Value] = []
    # What a person forbids or insists on; work never closes it.
    rules: list[Value] = []
    calls: dict[str, Call] = {}
    checks: list[Check] = []
    # Test runs whose result nobody saw, such as those behind a pipe.
    unseen: list[Value] = []
    failures: list[Failure] = []
    edits: list[Edit] = []
    commits: list[Value] = []
    pull_requests: list[Value] = []
    dead_ends: list[Value] = []
    commands: list[SlashCommand] = []
    # The items that the summary of the last compaction does not mention.
    dropped: list[Dropped] = []
    edited_at: int = 0
    committed_at: int = 0
    pushed_at: int = 0
    # When something was last edited or committed.
    worked_time: str = ""
    injected: list[str] = []
    unknown: dict[str, int] = {}
    # In the order in which they were seen; the numbers mean nothing.
    recent_uuids: dict[str, int] = {}

    @property
    def headless(self) -> bool:
        """Tell a program's run (`claude -p`, an SDK) from a person's session."""
        return self.entrypoint.startswith("sdk")

    @property
    def heard_time(self) -> str:
        """Return when it, or a sub-agent of it, was last heard."""
        return max(self.last_time, self.agent_time)


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(SessionState)


def encode(state: SessionState) -> str:
    return _encoder.encode(state).decode()


def decode(text: str) -> SessionState:
    try:
        return _decoder.decode(text)
    except msgspec.DecodeError as problem:
        raise ValueError(str(problem)) from None


def own_words(state: SessionState) -> str:
    """Return a state as text, without what we ourselves told the session."""
    return encode(msgspec.structs.replace(state, injected=[], unread=[], last_read=None))


def worked_since(state: SessionState, time: str) -> SessionState:
    """Return a state with only that work in it which was seen after a time."""

    def later(values: list[Value]) -> list[Value]:
        return [value for value in values if value.receipt.time > time]

    return msgspec.structs.replace(
        state,
        commits=later(state.commits),
        pull_requests=later(state.pull_requests),
        decisions=later(state.decisions),
        unseen=later(state.unseen),
        files=[file for file in state.files if file.receipt.time > time],
        checks=[check for check in state.checks if check.receipt.time > time],
    )
