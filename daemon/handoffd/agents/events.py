"""The vocabulary of events: the meaning of a transcript's records, for every coding agent. Pure."""

from typing import NamedTuple

# Undecoded JSON: most outputs are never decoded.
from msgspec import Raw

# Events of a tool's call and of its result


class Edited(NamedTuple):
    """A file is edited: the text before and after; the edit of a whole file has no `before`."""

    call: str
    path: str
    before: str
    after: str


class Looked(NamedTuple):
    """A file is read or searched."""

    path: str
    call: str = ""


class Ran(NamedTuple):
    """A shell command or a sub-agent is run; a sub-agent has a description and no command."""

    call: str
    command: str
    description: str


class Asked(NamedTuple):
    """The session waits for a person's answers."""

    call: str
    questions: tuple[str, ...]


class Proposed(NamedTuple):
    """The session waits for a person to approve its plan."""

    call: str
    plan: str


class Drafted(NamedTuple):
    """A plan is written into one of the client's plan files."""

    plan: str


class Denied(NamedTuple):
    """A person refused a tool call; the words are the reason, if the person gave one."""

    call: str
    words: str


class Resulted(NamedTuple):
    """A tool gave its result: whether it failed, and its exit status if the result states one."""

    call: str
    failed: bool
    code: int | None
    output: Raw
    # The command has only begun, and continues in the background, under this name.
    begun: bool = False
    task: str = ""


class OutputRead(NamedTuple):
    """A call reads what a command in the background printed, in a shell by the given command."""

    call: str
    task: str
    reader: str = ""


class AgentRan(NamedTuple):
    """A sub-agent runs tests."""

    call: str
    command: str


class AgentResulted(NamedTuple):
    """A tool gave its result to a sub-agent."""

    call: str
    failed: bool
    output: Raw


class Approved(NamedTuple):
    """A person approved a plan."""

    plan: str


class Decided(NamedTuple):
    """A person answered questions."""

    answers: tuple[tuple[str, str], ...]


class GitDone(NamedTuple):
    """The client itself saw a commit, a push or a pull request."""

    sha: str
    branch: str
    pushed: bool
    pull_request: int | None
    url: str


class TodoItem(NamedTuple):
    """One item of a list of things to do."""

    key: str
    text: str
    status: str


class Invoked(NamedTuple):
    """The assistant itself gave a slash command."""

    name: str
    arguments: str


class Listed(NamedTuple):
    """The whole list of things to do, as it is now."""

    todos: tuple[TodoItem, ...]


class Planned(NamedTuple):
    """One thing to do was added or changed; an empty text or status leaves it as it is."""

    todo: TodoItem


ToolEvent = (
    Edited
    | Looked
    | Ran
    | Asked
    | Proposed
    | Drafted
    | Denied
    | Resulted
    | OutputRead
    | AgentRan
    | AgentResulted
    | Approved
    | Decided
    | GitDone
    | Invoked
    | Listed
    | Planned
)

# Events of the conversation and of the client


class Prompt(NamedTuple):
    """A person typed this; `parent` is the record before it, None if that is not known."""

    text: str
    parent: str | None = None


class Queued(NamedTuple):
    """A prompt waits until the work is done; an empty text is the client's own notice."""

    text: str


class Unqueued(NamedTuple):
    """So many waiting prompts were taken up, or taken back, the oldest first."""

    number: int


class BackedUp(NamedTuple):
    """The client states which content each file has: a version, or 0 for a file that is not there.

    `prompt` is the record of the prompt before which this is the state of the disk; it is empty if
    the files were only just taken into the client's care.
    """

    prompt: str
    versions: tuple[tuple[str, int], ...]


class Commanded(NamedTuple):
    """A person gave a slash command, with the arguments typed behind it."""

    name: str
    arguments: str


class Shelled(NamedTuple):
    """A person ran a shell command with `!`; its output comes in a record of its own."""

    command: str
    output: str


class Said(NamedTuple):
    """The assistant said this; it goes on if a tool call follows in the same turn."""

    text: str
    goes_on: bool = False


class Stopped(NamedTuple):
    """The person or an error of the service stopped the work."""

    error: str


class Notified(NamedTuple):
    """Work in the background ended."""

    call: str
    status: str
    summary: str


class Moved(NamedTuple):
    """The session itself now lives in another directory."""

    cwd: str


class Titled(NamedTuple):
    """The session has a title; a person's own wins over the client's."""

    text: str
    by_person: bool


class Compacted(NamedTuple):
    """The conversation so far was replaced by a summary."""

    trigger: str


class Summarised(NamedTuple):
    """The client's summary of the conversation that was compacted away."""

    text: str


class Recapped(NamedTuple):
    """The client's own recap for a person who was away."""

    text: str


class Aimed(NamedTuple):
    """A goal that the person gave the client to check, and whether it is met."""

    condition: str
    met: bool


class Opened(NamedTuple):
    """A pull request of this session."""

    number: int
    url: str


class Injected(NamedTuple):
    """A text that we printed into the session: neither it nor a repetition of it is evidence."""

    text: str


Event = (
    ToolEvent
    | Prompt
    | Queued
    | Unqueued
    | BackedUp
    | Commanded
    | Shelled
    | Said
    | Stopped
    | Notified
    | Moved
    | Titled
    | Compacted
    | Summarised
    | Recapped
    | Aimed
    | Opened
    | Injected
)
