"""The fold of a session's events, and every value with its receipt. Pure.

What is kept is evidence, in windows that do not grow with the session's age; what follows from
it is worked out where it is asked for (session/insights.py).
"""

from typing import NamedTuple

import msgspec

# Raise it when the meaning of a stored fold changes: older ones are folded anew.
FOLD_VERSION = 9
FILES_MAX = 120
TODOS_MAX = 40
QUESTIONS_MAX = 5
DECISIONS_MAX = 10
STATEMENTS_MAX = 12
CALLS_MAX = 16
CHECKS_MAX = 8
FAILURES_MAX = 12
EDITS_MAX = 48
COMMITS_MAX = 10
COMMANDS_MAX = 8
DEAD_ENDS_MAX = 8
INJECTED_MAX = 24
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
    """What the assistant said: how it began and ended, what it announced, supposed and asked."""

    opening: Value
    ending: str = ""
    intention: str = ""
    theory: str = ""
    verdict: str = ""
    question: str = ""
    done: bool = False
    steps: tuple[str, ...] = ()


class File(msgspec.Struct, gc=False):
    """A file the session worked on; `at` counts records, so that later means more recent."""

    path: str
    receipt: Receipt
    edits: int = 0
    attention: int = 0
    at: int = 0
    edited_at: int = 0


class Call(NamedTuple):
    """A command or an edit whose result is still to come."""

    id: str
    command: str
    path: str


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
    goal: Value | None = None
    previous_goal: Value | None = None
    # The client's title, and the last pull request's: what they say if the goal says little.
    title: Value | None = None
    pull_request_title: Value | None = None
    # The title of the plan that was written last.
    plan: Value | None = None
    # The client checks a goal for the person: whether it is met.
    aim_met: bool | None = None
    # What was taken for the goal in so many words: a title, a plan, a goal given to the client.
    named: list[str] = []
    # Why the session waits for a person: what was asked, or which error stopped it.
    waiting: Value | None = None
    # The call whose result ends the waiting.
    waiting_for: str = ""
    # The last request of a person, and what was done for it last.
    last_prompt: Value | None = None
    activity: Value | None = None
    activity_kept: bool = True
    statements: list[Statement] = []
    # What was said last, still to be read: most of it is pushed out before anybody asks.
    unread: list[tuple[str, Receipt]] = []
    # Whether the assistant spoke last, with no tool at work since.
    spoke_last: bool = False
    # What the last summary called pending, until a person says more than "go on".
    pending: list[Value] = []
    files: list[File] = []
    todos: list[Todo] = []
    # How many requests came since the list last changed.
    todos_age: int = 0
    # When the client's task files last changed that were taken.
    tasks_at: int = 0
    questions: list[Value] = []
    decisions: list[Value] = []
    calls: dict[str, Call] = {}
    checks: list[Check] = []
    failures: list[Failure] = []
    edits: list[Edit] = []
    commits: list[Value] = []
    pull_requests: list[Value] = []
    dead_ends: list[Value] = []
    commands: list[SlashCommand] = []
    edited_at: int = 0
    committed_at: int = 0
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
    return encode(msgspec.structs.replace(state, injected=[], unread=[]))


def worked_since(state: SessionState, time: str) -> SessionState:
    """Return a state with only that work in it which was seen after a time."""

    def later(values: list[Value]) -> list[Value]:
        return [value for value in values if value.receipt.time > time]

    return msgspec.structs.replace(
        state,
        commits=later(state.commits),
        pull_requests=later(state.pull_requests),
        decisions=later(state.decisions),
        files=[file for file in state.files if file.receipt.time > time],
        checks=[check for check in state.checks if check.receipt.time > time],
    )
