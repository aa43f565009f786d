"""The specification of the bridge, sentence by sentence, tested through a daemon's socket."""

import contextlib
import re
import sqlite3

import pytest

from handoffd.store.core import CoreStore
from handoffd.store.thread_store import NewEntry
from mcp_socket_client import ENTRY, HANDOFF, SEED, TYPES, Mcp, ask

TOOLS = {
    "create_handoff": (["title", "content"], ["project", "as_client"]),
    "get_handoff": (["id"], ["as_client"]),
    "add_to_handoff": (["id", "type", "content"], ["as_client"]),
    # up_to is our addition: without it an entry that came after the last get would be marked,
    # too.
    "mark_handoff_read": (["id"], ["up_to", "as_client"]),
    "close_handoff": (["id"], []),
}
BY_ID = [name for name, (required, _) in TOOLS.items() if "id" in required]
GIVEN = {"title": "A title", "content": "Some words", "type": "task"}
UNKNOWN = "hof_AAAAAAAAAAAAAAAAAAAAA"
_UNREAD_BY_CODE = (
    "SELECT count(*) FROM handoff_entries JOIN handoffs ON handoffs.id = handoff_id"
    " WHERE handoff_id = ? AND from_client = 'chat' AND seq > code_last_seen"
)


def arguments(tool: str, thread_id: str = UNKNOWN) -> dict:
    """Return the required arguments of a tool."""
    return {name: GIVEN.get(name, thread_id) for name in TOOLS[tool][0]}


# Concept


@pytest.mark.parametrize("creator", ["chat", "code"])
@pytest.mark.seed("000", "A context-sharing bridge between Claude Chat")
@pytest.mark.seed("000", "When Chat has context, tasks, or decisions")
@pytest.mark.seed("000", "The other client reads the handoff by ID")
def test_the_other_client_reads_by_id_and_picks_up_the_thread(mcp, creator):
    """A client that has the id reads the shared entries as new, from Chat to Code or vice versa."""
    other = "code" if creator == "chat" else "chat"
    thread = mcp.create("Here's what we decided...", as_client=creator)

    assert ["Here's what we decided..."] == mcp.new(thread, as_client=other)


@pytest.mark.seed("000", "One handoff ID = one working session")
@pytest.mark.seed("000", 'Chat: "Here\'s what we decided..."')
def test_one_id_is_one_session_spanning_both_clients(mcp):
    """Under one id are the entries of both clients, in the order in which they were added."""
    thread = mcp.create("Here's what we decided...")
    mcp.add(thread, "Hit a problem, need input", "question", as_client="code")
    mcp.add(thread, "Go with option B", "decision")
    said = [(entry["from_client"], entry["content"]) for entry in mcp.get(thread)["entries"]]

    assert [
        ("chat", "Here's what we decided..."),
        ("code", "Hit a problem, need input"),
        ("chat", "Go with option B"),
    ] == said
    assert said == [
        (entry["from_client"], entry["content"])
        for entry in mcp.get(thread, as_client="code")["entries"]
    ]


# ID-based access only


@pytest.mark.seed("000", "There are no list or search tools.")
def test_there_are_no_list_or_search_tools(mcp):
    """There are exactly five tools, and no other part of MCP lists the existing threads."""
    tools = [tool["name"] for tool in mcp.result("tools/list")["tools"]]

    assert list(TOOLS) == tools
    for method in ("resources/list", "resources/templates/list", "prompts/list"):
        assert -32601 == mcp.request(method)["error"]["code"]


@pytest.mark.seed("000", "You access a handoff exclusively by its ID")
def test_a_thread_is_accessed_exclusively_by_its_id(mcp):
    """A title, a tag, a part of an id or a pattern does not find a thread."""
    thread = mcp.create(title="Campaign", project="dnd")

    for other in ("Campaign", "dnd", thread[:12], thread[4:], thread.swapcase(), "hof_%", "*", ""):
        assert f"Handoff '{other.strip('*')}' not found." == mcp.refusal("get_handoff", id=other)


@pytest.mark.seed("000", "CREATE TABLE handoffs (")
def test_an_id_is_a_nanoid_with_the_prefix_hof(mcp):
    """An id is hof_ and 21 characters of A-Za-z0-9_-, different each time."""
    ids = {mcp.create() for _ in range(20)}

    assert 20 == len(ids)
    assert [] == [found for found in ids if not re.fullmatch(r"hof_[A-Za-z0-9_-]{21}", found)]


@pytest.mark.seed("000", "The user manually pastes the ID")
def test_the_user_pastes_the_id(mcp):
    """Characters that a person copies along with the id from a text are ignored."""
    thread = mcp.create()

    for around in ("`{}`", ' "{}" ', "{}.", "({})", "**{}**", "{}\n", "\u201c{}\u201d", "\u200b{}"):
        assert thread == mcp.get(around.format(thread))["handoff"]["id"]


# Client identity


@pytest.mark.seed("000", "Every entry is tagged with who wrote it")
def test_every_entry_is_tagged_with_who_wrote_it(mcp):
    """Each entry names its writer: chat or code."""
    thread = mcp.create(as_client="code")
    mcp.add(thread, as_client="chat")
    mcp.add(thread, as_client="code")

    entries = mcp.get(thread)["entries"]
    assert ["code", "chat", "code"] == [entry["from_client"] for entry in entries]


@pytest.mark.seed("000", "**Chat** = Claude Desktop, Claude.ai, mobile")
@pytest.mark.seed("000", 'Detection: all clients default to `"chat"`.')
@pytest.mark.seed("000", '| `as_client` | "chat" \\| "code" | no | Defaults to "chat". Set')
def test_all_clients_default_to_chat(mcp):
    """Without as_client every tool treats the caller as Chat."""
    thread = mcp.create()
    mcp.add(thread)
    mcp.add(thread, "from Code", as_client="code")

    entries = mcp.get(thread)["entries"]
    assert ["chat", "chat", "code"] == [entry["from_client"] for entry in entries]
    assert ["from Code"] == mcp.new(thread)
    assert "chat" == mcp.call("mark_handoff_read", id=thread)["client"]
    assert [] == mcp.new(thread)


@pytest.mark.seed("000", 'Claude Code must explicitly pass `as_client: "code"`')
def test_code_passes_as_client_on_every_call(mcp):
    """as_client: "code" applies only to the call that has it."""
    thread = mcp.create()
    seq = mcp.add(thread, as_client="code")

    assert "chat" == mcp.call("mark_handoff_read", id=thread, up_to=0)["client"]
    assert "code" == mcp.call("mark_handoff_read", id=thread, as_client="code")["client"]
    assert {"chat_last_seen": seq - 1, "code_last_seen": seq} == {
        name: mcp.get(thread)["handoff"][name] for name in ("chat_last_seen", "code_last_seen")
    }
    assert mcp.call("close_handoff", id=thread, as_client="code")["closed"]


@pytest.mark.seed("000", "**Code** = Claude Code CLI")
def test_a_server_started_as_code_defaults_to_code_and_the_argument_wins(served):
    """A connection that was started as code is Code's, unless a call names another client."""
    with Mcp(served, client="code") as code:
        thread = code.create()
        code.add(thread, as_client="chat")
        entries = code.get(thread)["entries"]

    assert ["code", "chat"] == [entry["from_client"] for entry in entries]


@pytest.mark.parametrize("tool", [name for name, names in TOOLS.items() if "as_client" in names[1]])
@pytest.mark.seed("000", "Every entry is tagged with who wrote it")
def test_nobody_is_anything_but_chat_or_code(mcp, tool):
    """as_client accepts exactly two values."""
    text = mcp.refusal(tool, **arguments(tool), as_client="desktop")

    assert f"{tool}: as_client must be 'chat' or 'code'." == text.splitlines()[0]


# Read tracking


@pytest.mark.seed("000", "Each handoff tracks two cursors")
@pytest.mark.seed("000", "These are entry sequence numbers.")
def test_each_handoff_tracks_two_cursors_which_are_sequence_numbers(mcp):
    """chat_last_seen and code_last_seen hold the number of the last entry that each client saw."""
    thread = mcp.create()
    first = mcp.get(thread)["entries"][0]["seq"]
    second = mcp.add(thread, as_client="code")
    before = mcp.get(thread)["handoff"]
    mcp.mark(thread)
    after = mcp.get(thread)["handoff"]

    # Code had not seen the first entry: adding one does not mark it.
    assert (first, 0) == (before["chat_last_seen"], before["code_last_seen"])
    assert (second, 0) == (after["chat_last_seen"], after["code_last_seen"])


@pytest.mark.seed("000", "When you call `get_handoff`, the response includes")
@pytest.mark.seed("000", "`new_entries` — only entries with `seq > your last_seen`")
def test_get_shows_the_entries_that_the_client_has_not_seen(mcp):
    """new_entries are the other client's above the cursor; reading them does not mark them."""
    thread = mcp.create("one")
    mcp.add(thread, "two", as_client="chat")
    for _ in range(2):
        assert ["one", "two"] == mcp.new(thread, as_client="code")
        assert [] == mcp.new(thread, as_client="chat")


@pytest.mark.seed("000", "Call `mark_handoff_read` to advance your cursor.")
def test_mark_handoff_read_advances_your_cursor_and_only_yours(mcp):
    """Marking read advances the cursor of one client only."""
    thread = mcp.create("one")
    seq = mcp.add(thread, "two", as_client="code")

    assert seq == mcp.mark(thread, as_client="code")
    assert [] == mcp.new(thread, as_client="code")
    assert ["two"] == mcp.new(thread, as_client="chat")


@pytest.mark.parametrize("client", ["chat", "code"])
@pytest.mark.seed("000", "When you write an entry (via `create_handoff`")
def test_your_own_cursor_is_advanced_when_you_create(mcp, client):
    """The creator has seen its own entry, in the second thread as in the first."""
    for _ in range(2):
        made = mcp.call("create_handoff", title="t", content="c", as_client=client)
        (entry,) = made["entries"]
        assert entry["seq"] == made["handoff"][f"{client}_last_seen"]
        assert 0 == made["handoff"]["code_last_seen" if client == "chat" else "chat_last_seen"]
        assert [] == mcp.new(made["handoff"]["id"], as_client=client)


@pytest.mark.parametrize("client", ["chat", "code"])
@pytest.mark.seed("000", "When you write an entry (via `create_handoff`")
def test_your_own_cursor_is_advanced_when_you_add(mcp, client):
    """The writer has seen its own entry."""
    thread = mcp.create(as_client=client)
    given = {"id": thread, "type": "task", "content": "c", "as_client": client}
    added = mcp.call("add_to_handoff", **given)

    assert added["entry"]["seq"] == added["handoff"][f"{client}_last_seen"]
    assert [] == mcp.new(thread, as_client=client)


def test_writing_before_reading_marks_nothing_read(mcp):
    """The other client's entries stay new for a client that writes without reading them."""
    thread = mcp.create("context", as_client="code")
    mcp.add(thread, "Go with option B", "decision")
    mcp.add(thread, "Still at it", as_client="code")

    assert ["Go with option B"] == mcp.new(thread, as_client="code")


@pytest.mark.parametrize("client", ["chat", "code"])
@pytest.mark.seed("000", "When you write an entry (via `create_handoff`")
def test_writing_marks_what_the_writer_was_shown(mcp, client):
    """A client that reads and then writes has seen the entries that it read."""
    other = "code" if client == "chat" else "chat"
    thread = mcp.create("context", as_client=other)
    assert ["context"] == mcp.new(thread, as_client=client)
    added = mcp.call("add_to_handoff", id=thread, type="task", content="c", as_client=client)

    assert added["entry"]["seq"] == added["handoff"][f"{client}_last_seen"]
    assert [] == mcp.new(thread, as_client=client)
    assert ["c"] == mcp.new(thread, as_client=other)


@pytest.mark.seed("000", "When you write an entry (via `create_handoff`")
def test_an_answer_that_came_between_reading_and_writing_stays_new(mcp):
    """Writing moves the cursor past the entries that were shown, and not past a later one."""
    thread = mcp.create("context", as_client="code")
    shown = mcp.add(thread, "Go with option B", "decision")
    assert ["Go with option B"] == mcp.new(thread, as_client="code")
    mcp.add(thread, "Stop, option C", "decision")
    mcp.add(thread, "Done with option B", "done", as_client="code")
    got = mcp.get(thread, as_client="code")

    assert ["Stop, option C"] == [entry["content"] for entry in got["new_entries"]]
    assert shown == got["handoff"]["code_last_seen"]
    mcp.add(thread, "Option C then", as_client="code")
    assert [] == mcp.new(thread, as_client="code")


def test_what_one_client_was_shown_marks_nothing_for_the_other(mcp):
    """Chat was shown an entry of Code; Code's cursor is moved by what Code was shown."""
    thread = mcp.create("context")
    mcp.get(thread)
    mcp.add(thread, "Written before reading", as_client="code")

    assert ["context"] == mcp.new(thread, as_client="code")
    assert ["Written before reading"] == mcp.new(thread)


@pytest.mark.seed("000", "Advance your read cursor to the latest entry.")
def test_mark_up_to_leaves_what_came_after_the_last_look(mcp):
    """With up_to an entry that arrived meanwhile stays new; a cursor never goes back."""
    thread = mcp.create("one")
    seen = mcp.get(thread, as_client="code")["new_entries"][-1]["seq"]
    mcp.add(thread, "two")

    assert seen == mcp.mark(thread, up_to=seen, as_client="code")
    assert ["two"] == mcp.new(thread, as_client="code")
    assert seen == mcp.mark(thread, up_to=0, as_client="code")
    assert ["two"] == mcp.new(thread, as_client="code")


def test_mark_up_to_stays_within_the_thread(mcp):
    """A number beyond the last entry counts as the last entry, so later entries are new."""
    thread = mcp.create("one")
    last = mcp.add(thread, "two")

    assert last == mcp.mark(thread, up_to=10**30, as_client="code")
    mcp.add(thread, "three")
    assert ["three"] == mcp.new(thread, as_client="code")


# Entry lifecycle


@pytest.mark.seed("000", "Entries are append-only during an active session.")
def test_entries_are_append_only(mcp):
    """An entry keeps its text and number through all later calls."""
    thread = mcp.create()
    kept = mcp.get(thread)["entries"]
    for kind in TYPES:
        mcp.add(thread, kind, kind)
        mcp.mark(thread, as_client="code")
        entries = mcp.get(thread)["entries"]
        assert kept == entries[: len(kept)]
        assert len(kept) + 1 == len(entries)
        kept = entries


@pytest.mark.seed("000", "No editing or deleting individual entries.")
def test_no_tool_edits_or_deletes_a_single_entry(mcp):
    """Only mark_handoff_read takes an entry's number, and no tool edits or deletes an entry."""
    tools = mcp.result("tools/list")["tools"]
    takes = {tool["name"]: set(tool["inputSchema"]["properties"]) for tool in tools}

    assert {} == {name: found for name, found in takes.items() if found & {"seq", "entry"}}
    assert ["mark_handoff_read"] == [name for name, found in takes.items() if "up_to" in found]
    for name in ("edit_entry", "update_handoff", "delete_entry", "delete_handoff"):
        assert f"There is no tool {name!r}." == mcp.refusal(name).splitlines()[0]


@pytest.mark.seed("000", "When `close_handoff` is called, all entries")
@pytest.mark.seed("000", "Deletes all entries and marks the handoff as `completed`.")
def test_close_deletes_all_entries_and_marks_completed(served, mcp):
    """After close_handoff no entry of the thread is left in the database."""
    thread = mcp.create()
    mcp.add(thread)
    mcp.close(thread)

    assert [(0,)] == ask(
        served, "SELECT count(*) FROM handoff_entries WHERE handoff_id = ?", thread
    )
    assert [("completed",)] == ask(served, "SELECT status FROM handoffs WHERE id = ?", thread)


@pytest.mark.seed("000", "The handoff row itself persists (for reference)")
@pytest.mark.seed("000", "After `close_handoff`, the handoff row persists")
def test_the_handoff_row_persists_after_close(mcp):
    """The row stays for reference with title, tag and creation; the conversation is gone."""
    thread = mcp.create(title="Auth", project="hlg")
    before = mcp.get(thread)["handoff"]
    mcp.close(thread)
    got = mcp.get(thread)

    assert {"status": "completed"} == {
        name: got["handoff"][name]
        for name in HANDOFF
        if name != "updated_at" and got["handoff"][name] != before[name]
    }
    assert ([], [], 0) == (got["entries"], got["new_entries"], got["new_count"])


# Database schema


@pytest.mark.parametrize("table", ["handoffs", "handoff_entries"])
@pytest.mark.seed("000", "Two tables in `core.db`")
@pytest.mark.seed("000", "CREATE TABLE handoffs (")
@pytest.mark.seed("000", "CREATE TABLE handoff_entries (")
def test_the_schema_is_the_seeds(served, table):
    """Both tables have the seed's columns, types, defaults and order; ours come after them."""
    with contextlib.closing(sqlite3.connect(":memory:")) as seed:
        seed.executescript(SEED)
        columns = seed.execute(f"PRAGMA table_info({table})").fetchall()
        foreign = seed.execute(f"PRAGMA foreign_key_list({table})").fetchall()
    ours = ask(served, f"PRAGMA table_info({table})")

    assert columns == ours[: len(columns)]
    added = {"handoffs": ["content_bytes", "chat_shown", "code_shown"], "handoff_entries": []}
    assert added[table] == [name for _, name, *_ in ours[len(columns) :]]
    assert foreign == ask(served, f"PRAGMA foreign_key_list({table})")


@pytest.mark.seed("000", "CREATE TABLE handoff_entries (")
def test_seq_is_a_global_auto_increment(served, mcp):
    """A number is given once across all threads, even after its entry was deleted."""
    one, other = mcp.create(), mcp.create()
    numbers = [mcp.add(thread) for thread in (one, other, one, other)]
    mcp.close(other)

    assert sorted(set(numbers)) == numbers
    assert numbers[-1] < mcp.add(one)
    (sql,) = ask(served, "SELECT sql FROM sqlite_master WHERE name = 'handoff_entries'")
    assert "AUTOINCREMENT" in sql[0]


@pytest.mark.seed("000", "CREATE TABLE handoffs (")
def test_the_status_is_active_or_completed(mcp):
    """A thread is active until it is closed."""
    thread = mcp.create()
    before = mcp.get(thread)["handoff"]["status"]
    mcp.close(thread)

    assert ("active", "completed") == (before, mcp.get(thread)["handoff"]["status"])


@pytest.mark.parametrize("client", ["chat", "code"])
@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.seed("000", "| `context` | Background info")
@pytest.mark.seed("000", "| `task` | Specific work item")
@pytest.mark.seed("000", "| `progress` | Status update")
@pytest.mark.seed("000", "| `question` | Need input/decision")
@pytest.mark.seed("000", "| `decision` | Answer to a question")
@pytest.mark.seed("000", "| `done` | Work completed")
def test_entry_types(mcp, kind, client):
    """Either client may use each of the six types: the typical sender is not a rule."""
    thread = mcp.create()
    given = {"id": thread, "type": kind, "content": "c", "as_client": client}

    assert kind == mcp.call("add_to_handoff", **given)["entry"]["type"]


@pytest.mark.parametrize("kind", ["note", "Task", "", "context "])
@pytest.mark.seed("000", "| `type` | enum | yes | One of")
def test_there_are_no_other_entry_types(mcp, kind):
    """Another type is refused, and the error names the six types."""
    thread = mcp.create()
    text = mcp.refusal("add_to_handoff", id=thread, type=kind, content="c")

    assert "add_to_handoff: type must be " in text
    assert [] == [name for name in TYPES if f"'{name}'" not in text]
    assert 1 == len(mcp.get(thread)["entries"])


# Tools reference


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.seed("000", "| `title` | string | yes | Short title")
@pytest.mark.seed("000", "| `content` | string | yes | Initial context")
@pytest.mark.seed("000", '| `as_client` | "chat" \\| "code" | no | Defaults to "chat". Set')
@pytest.mark.seed("000", "| `id` | string | yes | Handoff ID |")
@pytest.mark.seed("000", '| `as_client` | "chat" \\| "code" | no | Defaults to "chat" |')
@pytest.mark.seed("000", "| `content` | string | yes | The message")
def test_parameters_of_a_tool(mcp, tool):
    """A tool takes exactly the seed's parameters, with the same ones required and optional."""
    (found,) = [each for each in mcp.result("tools/list")["tools"] if each["name"] == tool]
    schema = found["inputSchema"]
    required, optional = TOOLS[tool]

    assert required == schema["required"]
    assert {*required, *optional} == set(schema["properties"])
    assert False is schema["additionalProperties"]
    for name, property_ in schema["properties"].items():
        assert ("integer" if name == "up_to" else "string") == property_["type"]
    if "as_client" in optional:
        assert ["chat", "code"] == schema["properties"]["as_client"]["enum"]
    if "type" in required:
        assert list(TYPES) == schema["properties"]["type"]["enum"]


@pytest.mark.parametrize(
    ("tool", "name"), [(tool, name) for tool, (names, _) in TOOLS.items() for name in names]
)
@pytest.mark.seed("000", "| `title` | string | yes | Short title")
def test_a_required_parameter_that_is_missing_is_named(mcp, tool, name):
    """A call without a required parameter is refused by the parameter's name."""
    given = {key: value for key, value in arguments(tool).items() if key != name}

    assert f"{tool}: {name} is missing." == mcp.refusal(tool, **given).splitlines()[0]


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.seed("000", "| `project` | string | no | Project tag")
def test_optional_parameters_may_be_null(mcp, tool):
    """null counts as an omitted optional parameter."""
    given = arguments(tool, mcp.create()) | dict.fromkeys(TOOLS[tool][1])

    assert mcp.call(tool, **given)


@pytest.mark.parametrize("tool", BY_ID)
@pytest.mark.seed("000", "Retrieve a handoff by ID.")
def test_a_thread_that_does_not_exist(mcp, tool):
    """The error has the origin's text."""
    assert f"Handoff '{UNKNOWN}' not found." == mcp.refusal(tool, **arguments(tool))


@pytest.mark.seed("000", "Create a new handoff session.")
@pytest.mark.seed("000", "The `content` becomes the first entry")
@pytest.mark.seed("000", "**Returns:** The handoff record + initial entry.")
@pytest.mark.seed("000", 'create_handoff( title: "DnD campaign arc planning"')
def test_create_handoff(mcp):
    """The content becomes the first entry, of type context, and both records are returned."""
    made = mcp.call(
        "create_handoff",
        title="DnD campaign arc planning",
        content="We decided on a 3-act structure. Act 1: ...",
        project="dnd",
        as_client="code",
    )
    (entry,) = made["entries"]

    assert {"handoff", "entries"} == set(made)
    assert (HANDOFF, ENTRY) == (list(made["handoff"]), list(entry))
    assert ("DnD campaign arc planning", "dnd", "active") == (
        made["handoff"]["title"],
        made["handoff"]["project"],
        made["handoff"]["status"],
    )
    assert (made["handoff"]["id"], "code", "context") == (
        entry["handoff_id"],
        entry["from_client"],
        entry["type"],
    )
    assert "We decided on a 3-act structure. Act 1: ..." == entry["content"]
    assert made["handoff"]["created_at"] == made["handoff"]["updated_at"] == entry["created_at"]


@pytest.mark.seed("000", "| `project` | string | no | Project tag")
def test_create_handoff_without_a_project(mcp):
    """The tag is optional."""
    made = mcp.call("create_handoff", title="t", content="c")

    assert None is made["handoff"]["project"]


@pytest.mark.seed("000", "Retrieve a handoff by ID.")
@pytest.mark.seed("000", "Shows all entries and highlights unseen ones.")
@pytest.mark.seed("000", "**Returns:** `{ handoff, entries, new_entries, new_count }`")
@pytest.mark.seed("000", "`entries` — all entries in order")
@pytest.mark.seed("000", "`new_count` — how many new entries there are")
def test_get_handoff_shows_all_entries_and_highlights_unseen_ones(mcp):
    """entries has all in order, new_entries those above the cursor, new_count their number."""
    thread = mcp.create("one")
    mcp.mark(thread, as_client="code")
    mcp.add(thread, "two", "task")
    mcp.add(thread, "three", "question", as_client="code")
    mcp.add(thread, "four", "decision")
    got = mcp.get(thread, as_client="code")

    assert ["handoff", "entries", "new_entries", "new_count"] == list(got)
    assert ["one", "two", "three", "four"] == [entry["content"] for entry in got["entries"]]
    assert sorted(entry["seq"] for entry in got["entries"]) == [e["seq"] for e in got["entries"]]
    assert [got["entries"][1], got["entries"][3]] == got["new_entries"]
    assert 2 == got["new_count"]


@pytest.mark.seed("000", "Append an entry to an active handoff.")
@pytest.mark.seed("000", "**Returns:** The updated handoff + the new entry.")
def test_add_to_handoff_returns_the_updated_handoff_and_the_new_entry(mcp):
    """The result has both, and the row's updated_at is the entry's time."""
    thread = mcp.create()
    added = mcp.call("add_to_handoff", id=thread, type="task", content="Build it")

    assert ["handoff", "entry"] == list(added)
    assert (HANDOFF, ENTRY) == (list(added["handoff"]), list(added["entry"]))
    assert (thread, "chat", "task", "Build it") == tuple(added["entry"].values())[1:5]
    assert added["entry"]["seq"] == added["handoff"]["chat_last_seen"]
    assert added["entry"]["created_at"] == added["handoff"]["updated_at"]


@pytest.mark.seed("000", "Fails if the handoff is already completed.")
def test_add_to_handoff_fails_if_the_handoff_is_already_completed(mcp):
    """No entry is added to a completed thread, and the error has the origin's text."""
    thread = mcp.create()
    mcp.close(thread)
    text = mcp.refusal("add_to_handoff", id=thread, type="done", content="c")

    assert f"Handoff '{thread}' is already completed." == text
    assert [] == mcp.get(thread)["entries"]


@pytest.mark.seed("000", "Advance your read cursor to the latest entry.")
@pytest.mark.seed("000", "After this, `get_handoff` will show `new_count: 0`.")
def test_mark_handoff_read_advances_to_the_latest_entry(mcp):
    """After mark_handoff_read, get_handoff shows new_count 0."""
    thread = mcp.create()
    last = mcp.add(thread)

    assert {"marked_read": True, "client": "code", "last_seen": last} == mcp.call(
        "mark_handoff_read", id=thread, as_client="code"
    )
    assert 0 == mcp.get(thread, as_client="code")["new_count"]


def test_mark_handoff_read_of_a_completed_handoff(mcp):
    """It is allowed, no entry is left to read, and the cursor stays unchanged."""
    thread = mcp.create()
    seq = mcp.mark(thread)
    mcp.close(thread)

    assert seq == mcp.mark(thread)
    assert 0 == mcp.mark(thread, as_client="code")
    assert 0 == mcp.get(thread, as_client="code")["new_count"]


@pytest.mark.seed("000", "Close the session.")
def test_close_handoff(mcp):
    """The result names the closed thread, and a second close gives the same result."""
    thread = mcp.create(title="Auth")
    closed = {"closed": True, "id": thread, "title": "Auth"}

    assert closed == mcp.close(thread)
    assert closed == mcp.close(thread)


@pytest.mark.parametrize("client", ["chat", "code"])
@pytest.mark.seed("000", 'Either client: close_handoff(id: "hof_abc123")')
def test_close_handoff_knows_no_client(mcp, client):
    """Either client may close a thread, with any as_client."""
    thread = mcp.create()
    mcp.call("close_handoff", id=thread, as_client=client)

    assert "completed" == mcp.get(thread)["handoff"]["status"]


# Typical workflow


@pytest.mark.seed("000", 'Chat: "Here\'s what we decided..."')
@pytest.mark.seed("000", "Once decisions are made:")
@pytest.mark.seed("000", 'User: "Hand this off to Claude Code')
@pytest.mark.seed("000", 'User: "Pick up handoff hof_abc123"')
@pytest.mark.seed("000", 'Code calls: add_to_handoff(id: "hof_abc123", type: "question"')
@pytest.mark.seed("000", 'User: "Check handoff hof_abc123"')
@pytest.mark.seed("000", 'User: "Check the handoff"')
@pytest.mark.seed("000", 'Either client: close_handoff(id: "hof_abc123")')
def test_the_six_steps(served):
    """The seed's calls, and no others, show each entry as new once, and leave none unread."""
    with Mcp(served) as chat, Mcp(served) as code:
        # 1. Chat creates the handoff
        context = "We decided on JWT with refresh tokens. Requirements: ..."
        thread = chat.create(context, title="Implement auth system")
        # 2. The user switches to Claude Code
        assert [context] == code.new(thread, as_client="code")
        code.mark(thread, as_client="code")
        # 3. Code hits a question
        question = "Should refresh tokens expire after 7d or 30d?"
        code.add(thread, question, "question", as_client="code")
        # 4. The user goes back to Chat
        assert [question] == chat.new(thread)
        decision = "30 days. Also add a 'remember me' option."
        chat.add(thread, decision, "decision")
        # 5. The user returns to Code
        assert [decision] == code.new(thread, as_client="code")
        done = "Auth system implemented. PR #42 ready for review."
        code.add(thread, done, "done", as_client="code")
        assert [(0,)] == ask(served, _UNREAD_BY_CODE, thread)
        got = chat.get(thread)
        assert ["context", "question", "decision", "done"] == [
            entry["type"] for entry in got["entries"]
        ]
        assert [done] == [entry["content"] for entry in got["new_entries"]]
        # 6. Close it out
        assert {"closed": True, "id": thread, "title": "Implement auth system"} == chat.close(
            thread
        )
        got = code.get(thread, as_client="code")

    assert ("completed", []) == (got["handoff"]["status"], got["entries"])


# Notes


@pytest.mark.seed("000", "Handoffs live in `core.db` -- accessible from both")
def test_handoffs_live_in_core_db_which_both_transports_share(served, mcp):
    """Two processes share the threads in core.db: each reads the other's entries."""
    thread = mcp.create("from the socket")
    store = CoreStore(str(served.state / "core.db"))
    _, entries = store.threads.read(thread)
    said = NewEntry("code", "done", "from another process", "2026-01-01T00:00:00Z")
    store.threads.add(thread, said, 1 << 20)
    store.close()

    assert ["from the socket"] == [entry.content for entry in entries]
    assert ["from another process"] == mcp.new(thread)


@pytest.mark.seed("000", "No FTS or search indexing on handoff tables")
def test_no_fts_or_search_indexing(served):
    """There is no virtual table, no trigger, and no index on the content of entries."""
    rows = ask(served, "SELECT type, name, tbl_name, coalesce(sql, '') FROM sqlite_master")

    assert [] == [name for _, name, _, sql in rows if "VIRTUAL" in sql.upper() or "fts" in name]
    assert [] == [name for kind, name, *_ in rows if kind in ("trigger", "view")]
    assert ["ON handoff_entries(handoff_id)"] == [
        sql.split("idx_handoff_entries_handoff ")[1]
        for kind, _, table, sql in rows
        if kind == "index" and sql and table.startswith("handoff")
    ]


@pytest.mark.seed("000", "The `project` tag is informational only")
def test_the_project_tag_is_informational_only(mcp):
    """Threads with the same tag share nothing, and only create_handoff takes the tag."""
    one, other = mcp.create("one", project="dnd"), mcp.create("other", project="dnd")
    untagged = mcp.create("untagged")

    for thread, said in ((one, "one"), (other, "other"), (untagged, "untagged")):
        assert [said] == mcp.new(thread, as_client="code")
    for tool in BY_ID:
        text = mcp.refusal(tool, **arguments(tool, one), project="dnd")
        assert f"{tool}: there is no argument 'project'." == text.splitlines()[0]


@pytest.mark.seed("000", "Entries accumulate during the session")
def test_entries_accumulate_without_pruning(mcp):
    """Two thousand entries are all kept, in order."""
    thread = mcp.create("0")
    for number in range(1, 2000):
        mcp.add(thread, str(number))

    entries = mcp.get(thread)["entries"]
    assert list(map(str, range(2000))) == [entry["content"] for entry in entries]
