"""The exact form of each tool's result: an unknown or missing part is an error."""

from pydantic import BaseModel, ConfigDict

from handoffd.api.tools import Client


class Output(BaseModel):
    """The result of a tool, with `warnings` only if there are some."""

    model_config = ConfigDict(extra="forbid")

    warnings: list[str] = []


class ThreadOutput(BaseModel):
    model_config = ConfigDict(extra="forbid")

    id: str
    title: str
    project: str | None
    chat_last_seen: int
    code_last_seen: int
    status: str
    created_at: str | None
    updated_at: str | None


class EntryOutput(BaseModel):
    model_config = ConfigDict(extra="forbid")

    seq: int
    handoff_id: str
    from_client: str
    type: str
    content: str
    created_at: str | None


class Created(Output):
    handoff: ThreadOutput
    entries: list[EntryOutput]


class Got(Output):
    handoff: ThreadOutput
    entries: list[EntryOutput]
    new_entries: list[EntryOutput]
    new_count: int


class Added(Output):
    handoff: ThreadOutput
    entry: EntryOutput


class Marked(Output):
    marked_read: bool
    client: Client
    last_seen: int


class Closed(Output):
    closed: bool
    id: str
    title: str
    # The path of the archived copy, if there is one.
    archive: str = ""


OUTPUTS = {
    "create_handoff": Created,
    "get_handoff": Got,
    "add_to_handoff": Added,
    "mark_handoff_read": Marked,
    "close_handoff": Closed,
}
