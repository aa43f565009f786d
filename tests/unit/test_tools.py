"""The definition of the tools: descriptions for models, refused arguments, and error texts."""

import json
import typing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handoff.commands import thread as client
from handoff.common.errors import HandoffError
from handoffd.api import mcp, mcp_initialize
from handoffd.api.caller import Caller
from handoffd.api.tools import TOOLS, Client, Kind, call, used_as_code
from handoffd.store.core import CoreStore
from handoffd.threads import thread_text as form
from handoffd.threads.service import ThreadService
from mcp_socket_client import TYPES
from tool_outputs import OUTPUTS

KINDS = {"object": dict, "array": list, "string": str, "boolean": bool, "integer": int}
# MCP's assumptions for missing hints.
ASSUMED = {
    "readOnlyHint": False, "destructiveHint": True, "idempotentHint": False, "openWorldHint": True,
}  # fmt: skip


@pytest.fixture
def threads(tmp_path):
    core = CoreStore(str(tmp_path / "core.db"))
    yield ThreadService(core.threads, core.scrub)
    core.close()


def refused(threads: ThreadService, tool: str, arguments) -> str:
    with pytest.raises(HandoffError) as problem:
        call(threads, tool, arguments, "chat")
    return str(problem.value)


# Text for models


def test_tools_json_lists_the_arguments_that_are_accepted():
    """tools.json has the tools in order, with the names, types and limits of their arguments."""
    assert list(TOOLS) == [tool["name"] for tool in mcp_initialize.tool_list()]
    for tool in mcp_initialize.tool_list():
        listed = tool["inputSchema"]
        accepted = TOOLS[tool["name"]].arguments
        fields = {name: f for name, f in accepted.model_fields.items() if not f.exclude}
        schema = accepted.model_json_schema()

        assert list(fields) == list(listed["properties"])
        assert schema["required"] == listed["required"]
        assert False is listed["additionalProperties"]
        for name, argument in listed["properties"].items():
            found = schema["properties"][name]
            # An optional argument may be left out; that it may also be null is not listed.
            wanted = found.get("anyOf", [found])[0]
            for key in ("type", "enum", "minimum"):
                assert wanted.get(key) == argument.get(key), (tool["name"], name, key)


def test_the_words_of_the_definition_are_those_of_the_form():
    """The two clients, the six types and the limits are the same in every place."""
    assert client.CLIENTS == typing.get_args(Client)
    assert tuple(TYPES) == client.TYPES == typing.get_args(Kind)
    for limit in ("500 characters", "256 KiB"):
        assert limit in json.dumps(mcp_initialize.tool_list())
    assert (500, 256 << 10) == (form.TITLE_MAX, form.CONTENT_MAX_BYTES)


def test_a_description_tells_a_model_how_to_use_the_tool():
    """Descriptions say when to create, paste and mark, and that closing deletes all entries."""
    texts = {tool["name"]: tool["description"] for tool in mcp_initialize.tool_list()}

    assert "when the user asks" in texts["create_handoff"]
    assert "Tell the user the id to paste" in texts["create_handoff"]
    assert "id the user pasted" in texts["get_handoff"]
    assert "not the user's orders" in texts["get_handoff"]
    assert "after acting on them" in texts["mark_handoff_read"]
    assert "Deletes all its entries for good" in texts["close_handoff"]
    assert "use one only if the user pasted it" in mcp_initialize.INSTRUCTIONS


@pytest.mark.parametrize(
    ("tool", "read_only", "destructive", "idempotent"),
    [
        ("create_handoff", False, False, False),
        ("get_handoff", True, None, None),
        ("add_to_handoff", False, False, False),
        ("mark_handoff_read", False, False, True),
        ("close_handoff", False, True, True),
    ],
)
def test_annotations(tool, read_only, destructive, idempotent):
    """Each tool has the right MCP hints; for a reading tool only two hints are relevant."""
    (found,) = [each["annotations"] for each in mcp_initialize.tool_list() if each["name"] == tool]
    hints = {**ASSUMED, **found}

    assert read_only == hints["readOnlyHint"]
    assert False is hints["openWorldHint"]
    if not read_only:
        assert (destructive, idempotent) == (hints["destructiveHint"], hints["idempotentHint"])


def test_a_result_is_what_its_schemas_say(threads):
    """Each tool's real results match its model and its output schema, with and without warnings."""
    made, _ = call(threads, "create_handoff", {"title": "t", "content": "c"}, "chat")
    thread = made["handoff"]["id"]
    token = "ghp_" + "aB3" * 12
    add = {"id": thread, "type": "task", "content": f"The key: {token}"}
    results = {
        "create_handoff": [made],
        "add_to_handoff": [call(threads, "add_to_handoff", add, "chat")[0]],
        "get_handoff": [call(threads, "get_handoff", {"id": thread}, "code")[0]],
        "mark_handoff_read": [call(threads, "mark_handoff_read", {"id": thread}, "code")[0]],
        "close_handoff": [call(threads, "close_handoff", {"id": thread}, "code")[0]],
    }
    results["get_handoff"].append(call(threads, "get_handoff", {"id": thread}, "code")[0])
    outlines = {tool["name"]: tool["outputSchema"] for tool in mcp_initialize.tool_list()}

    assert results["add_to_handoff"][0]["warnings"]
    for tool, found in results.items():
        for result in found:
            OUTPUTS[tool].model_validate(result, strict=True)
            assert (
                set(outlines[tool]["required"]) <= set(result) <= set(outlines[tool]["properties"])
            )
            for name, value in result.items():
                assert type(value) is KINDS[outlines[tool]["properties"][name]["type"]]


# Refused arguments, and error texts


@pytest.mark.parametrize(
    ("tool", "arguments", "said"),
    [
        ("create_handoff", {}, "title is missing; content is missing"),
        ("create_handoff", None, "title is missing; content is missing"),
        ("create_handoff", [], "arguments must be an object"),
        ("create_handoff", "title", "arguments must be an object"),
        ("create_handoff", 5, "arguments must be an object"),
        ("create_handoff", {"title": 5, "content": "c"}, "title must be a text"),
        ("create_handoff", {"title": "t", "content": None}, "content must be a text"),
        ("create_handoff", {"title": "t", "content": ["c"]}, "content must be a text"),
        (
            "create_handoff",
            {"title": "t", "content": "c", "tag": "x"},
            "there is no argument 'tag'",
        ),
        ("get_handoff", {"id": 5}, "id must be a text"),
        ("get_handoff", {"id": "x", "as_client": "Code"}, "as_client must be 'chat' or 'code'"),
        (
            "add_to_handoff",
            {"id": "x", "type": "note", "content": "c"},
            "type must be 'context', 'task', 'progress', 'question', 'decision' or 'done'",
        ),
        ("mark_handoff_read", {"id": "x", "up_to": "5"}, "up_to must be a whole number"),
        ("mark_handoff_read", {"id": "x", "up_to": 1.5}, "up_to must be a whole number"),
        ("mark_handoff_read", {"id": "x", "up_to": True}, "up_to must be a whole number"),
        ("mark_handoff_read", {"id": "x", "up_to": -1}, "up_to must be 0 or more"),
    ],
)
def test_what_is_wrong_is_said_in_words_to_act_on(threads, tool, arguments, said):
    """The error names the wrong argument, the reason, and the valid arguments."""
    first, second = refused(threads, tool, arguments).splitlines()

    assert f"{tool}: {said}." == first
    assert second.startswith("Arguments: ")


def test_an_error_names_the_arguments_that_there_are(threads):
    """Required arguments come first, then the optional ones."""
    expected = "Arguments: title, content; optional: project, as_client"

    assert expected == refused(threads, "create_handoff", {}).splitlines()[1]
    assert "Arguments: id" == refused(threads, "close_handoff", {}).splitlines()[1]


def test_an_error_is_short_however_wrong_the_call_is(threads):
    """Neither many unknown arguments nor long names make a long answer."""
    many = {f"{number}" + "x" * 1000: "y" * 1000 for number in range(1000)}

    assert len(refused(threads, "get_handoff", many)) < 1000
    assert len(refused(threads, "x" * 100_000, {})) < 250


def test_an_unknown_tool_is_answered_with_those_that_there_are(threads):
    """The answer names the five tools."""
    first, second = refused(threads, "list_handoffs", {}).splitlines()

    assert "There is no tool 'list_handoffs'." == first
    assert f"Tools: {', '.join(TOOLS)}" == second


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)


@given(
    tool=st.sampled_from(sorted(TOOLS)),
    arguments=st.dictionaries(
        st.sampled_from(["id", "title", "content", "type", "project", "as_client", "up_to", "x"]),
        JSON | st.text(st.characters()),
    )
    | JSON,
)
def test_whatever_is_given_is_answered(tmp_path_factory, tool, arguments):
    """Any JSON leads to a result or to an error in words, never to an exception."""
    directory = tmp_path_factory.getbasetemp() / "fuzzed"
    directory.mkdir(exist_ok=True)
    core = CoreStore(str(directory / "core.db"))
    params = {"name": tool, "arguments": arguments}
    frame = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    reply = mcp.answer(
        frame, Caller(), ThreadService(core.threads, lambda: None), lambda used: None
    )
    core.close()

    assert reply["result"]["isError"] in (True, False)
    assert json.dumps(reply).encode("ascii")


# Use of a thread by Code


def test_a_call_as_code_uses_the_thread(threads):
    """create, get, add and mark as code use a thread; closing it and calls as chat do not."""
    made, _ = call(threads, "create_handoff", {"title": "t", "content": "c"}, "code")
    thread = made["handoff"]["id"]
    pasted = {"id": f"`{thread}`."}
    add = {**pasted, "type": "task", "content": "c"}

    assert thread == used_as_code(made, "code", None)
    for tool, arguments, expected in (
        ("get_handoff", pasted, thread),
        ("add_to_handoff", add, thread),
        ("mark_handoff_read", pasted, thread),
        ("close_handoff", pasted, ""),
    ):
        result, client = call(threads, tool, arguments, "code")
        assert expected == used_as_code(result, client, arguments)
        assert "" == used_as_code(result, "chat", arguments)
