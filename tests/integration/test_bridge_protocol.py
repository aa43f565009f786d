"""MCP on the daemon's socket, without a library: versions, envelopes, and foreign methods."""

import json

import pytest

from handoff import __version__
from mcp_socket_client import MODERN, VERSIONS, Mcp, envelope

pytestmark = pytest.mark.quick

TOOLS = [
    "create_handoff", "get_handoff", "add_to_handoff", "mark_handoff_read", "close_handoff",
]  # fmt: skip
SERVER = {"name": "handoffd", "title": "handoffd", "version": __version__}
STAMP = {"io.modelcontextprotocol/serverInfo": SERVER}
LIST_MAX_BYTES = 4096


@pytest.fixture(params=["relay", "plain"])
def mcp(served, request):
    """A connection that began with a relay's hello, and one that did not."""
    with Mcp(served, "chat" if request.param == "relay" else None) as connection:
        yield connection


def hello(version=None) -> dict:
    named = {} if version is None else {"protocolVersion": version}
    return {**named, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}


# Versions


@pytest.mark.parametrize(
    ("asked", "answered"),
    [
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        # A client that asks for a version without a handshake is offered one that has a handshake.
        ("2026-07-28", "2025-11-25"),
        ("2024-11-05", "2025-11-25"),
        ("1999-01-01", "2025-11-25"),
        (None, "2025-11-25"),
        (5, "2025-11-25"),
        ([], "2025-11-25"),
    ],
)
def test_initialize(mcp, asked, answered):
    """A supported version is accepted, else our newest is offered. The answer names the server."""
    result = mcp.result("initialize", hello(asked))

    assert answered == result["protocolVersion"]
    assert SERVER == result["serverInfo"]
    assert {"tools": {"listChanged": False}} == result["capabilities"]
    assert "hof_" in result["instructions"]
    assert {"protocolVersion", "serverInfo", "capabilities", "instructions"} == set(result)


def test_initialize_with_an_envelope(mcp):
    """The handshake belongs to the older versions, regardless of the content of its `_meta`."""
    result = mcp.result("initialize", {**hello("2025-11-25"), "_meta": envelope("2099-01-01")})

    assert "2025-11-25" == result["protocolVersion"]


def test_requests_need_no_handshake(mcp):
    """A newly started daemon answers requests without an initialize."""
    assert TOOLS == [tool["name"] for tool in mcp.result("tools/list")["tools"]]


@pytest.mark.parametrize("meta", [{}, {"_meta": {"progressToken": 1}}, {"_meta": envelope()}])
def test_discover(mcp, meta):
    """The answer has the versions without a handshake, the capabilities, the server and a TTL."""
    result = mcp.result("server/discover", meta)

    assert [MODERN] == result["supportedVersions"]
    assert {"tools": {"listChanged": False}} == result["capabilities"]
    assert "hof_" in result["instructions"]
    assert ("complete", STAMP) == (result["resultType"], result["_meta"])
    assert ("private", 3_600_000) == (result["cacheScope"], result["ttlMs"])


def test_the_envelope_of_a_list(mcp):
    """In the newest version a list has its type, its server and its TTL.

    In older ones it has none.
    """
    older = mcp.result("tools/list", {})
    newer = mcp.result("tools/list", {"_meta": envelope()})

    assert ["tools"] == list(older)
    assert older["tools"] == newer.pop("tools")
    assert {
        "ttlMs": 3_600_000,
        "cacheScope": "private",
        "resultType": "complete",
        "_meta": STAMP,
    } == newer


@pytest.mark.parametrize("arguments", [{"title": "t", "content": "c"}, {}])
def test_the_envelope_of_a_call(mcp, arguments):
    """In the newest version every result, also of a failed call, has its type and its server."""
    params = {"name": "create_handoff", "arguments": arguments}
    older = mcp.result("tools/call", params)
    newer = mcp.result("tools/call", {**params, "_meta": envelope()})

    assert set(older) == set(newer) - {"resultType", "_meta"}
    assert (not arguments) is older["isError"] is newer["isError"]
    assert ("complete", STAMP) == (newer["resultType"], newer["_meta"])


@pytest.mark.parametrize("method", ["server/discover", "tools/list", "tools/call", "ping"])
@pytest.mark.parametrize("version", ["2025-11-25", "2099-01-01", ""])
def test_an_envelope_of_another_version(mcp, method, version):
    """The error has MCP's code, and names the supported and the requested versions."""
    params = {"name": "create_handoff", "arguments": {}, "_meta": envelope(version)}
    error = mcp.request(method, params)["error"]

    assert -32022 == error["code"]
    assert {"supported": [MODERN], "requested": version} == error["data"]


@pytest.mark.parametrize("method", ["server/discover", "tools/list", "tools/call"])
def test_an_envelope_without_capabilities(mcp, method):
    """The version alone is no envelope; the error names the missing field."""
    meta = envelope()
    del meta["io.modelcontextprotocol/clientCapabilities"]
    error = mcp.request(method, {"name": "get_handoff", "_meta": meta})["error"]

    assert -32602 == error["code"]
    assert "io.modelcontextprotocol/clientCapabilities" in error["message"]


@pytest.mark.parametrize("version", [5, None, ["2026-07-28"]])
def test_an_envelope_whose_version_is_no_text(mcp, version):
    """A version that is no text is an invalid request, not an unsupported version."""
    assert -32602 == mcp.request("tools/list", {"_meta": envelope(version)})["error"]["code"]


@pytest.mark.parametrize("version", VERSIONS)
def test_the_list_of_tools_is_small(mcp, version):
    """The list of tools has at most 4 KB on the wire, in every version."""
    params = {"_meta": envelope()} if version == MODERN else {}
    mcp.result("initialize", hello(version))
    mcp.send({"jsonrpc": "2.0", "id": "x" * 36, "method": "tools/list", "params": params})
    line = mcp.receive_line()

    assert TOOLS == [tool["name"] for tool in json.loads(line)["result"]["tools"]]
    assert len(line) <= LIST_MAX_BYTES


# Other requests


def test_ping(mcp):
    """A ping is answered with an empty object."""
    assert {} == mcp.result("ping")


@pytest.mark.parametrize(
    "method",
    [
        "notifications/initialized", "notifications/cancelled", "notifications/roots/list_changed",
        "notifications/of/whatever", "ping", "tools/list", "no/such/method",
    ],
)  # fmt: skip
def test_a_notification_gets_no_answer(mcp, method):
    """A message without an id gets no answer: the next answer belongs to the next request."""
    mcp.send({"jsonrpc": "2.0", "method": method, "params": {}})

    assert {} == mcp.result("ping")


@pytest.mark.parametrize(
    "method",
    [
        "resources/list", "resources/templates/list", "prompts/list", "logging/setLevel",
        "completion/complete", "tasks/list", "subscriptions/listen", "", "x" * 10_000,
    ],
    ids=lambda method: method[:20],
)  # fmt: skip
def test_unknown_methods_are_answered_at_once(mcp, method):
    """An unknown method is answered at once, in few words, and the connection goes on."""
    error = mcp.request(method, {})["error"]

    assert -32601 == error["code"]
    assert len(error["message"]) < 400
    assert {} == mcp.result("ping")


def test_a_relays_connection_speaks_nothing_but_mcp(served):
    """After the hello no message of a model's client can reach a command of the daemon."""
    with Mcp(served, "code") as relay:
        for method in ("status", "down", "forget", "watch", "mcp"):
            assert -32601 == relay.request(method, {})["error"]["code"]
    assert served.alive()


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"{", -32700),
        (b"\xff\xfe", -32700),
        (b"[" * 100_000, -32700),
        (b"[]", -32600),
        (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', -32600),
        (b"5", -32600),
        (b'{"jsonrpc":"2.0","id":1}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":5}', -32600),
        (b'{"jsonrpc":"2.0","id":{},"method":"ping"}', -32600),
    ],
    ids=lambda value: ascii(value[:20]) if isinstance(value, bytes) else None,
)
def test_what_is_no_request(mcp, line, code):
    """A frame that is no request gets JSON-RPC's error, and the connection goes on."""
    mcp.send(line)

    assert code == mcp.receive()["error"]["code"]
    assert {} == mcp.result("ping")


@pytest.mark.parametrize("params", [[], "x", 5, True])
@pytest.mark.parametrize("method", ["initialize", "tools/list", "tools/call", "server/discover"])
def test_params_that_are_no_object(mcp, method, params):
    """Params that are no object are refused."""
    assert -32602 == mcp.request(method, params)["error"]["code"]


def test_params_that_are_null(mcp):
    """Null params count as none."""
    mcp.send({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": None})

    assert TOOLS == [tool["name"] for tool in mcp.receive()["result"]["tools"]]


# Calls


@pytest.mark.parametrize("arguments", [[], "id", 5, True, [["id", "x"]]])
def test_arguments_that_are_no_object(mcp, arguments):
    """The result reports arguments that are no object as the model's mistake, not the client's."""
    result = mcp.result("tools/call", {"name": "get_handoff", "arguments": arguments})

    assert True is result["isError"]
    assert "get_handoff: arguments must be an object." in result["content"][0]["text"]


@pytest.mark.parametrize("arguments", [{}, {"arguments": None}, {"arguments": {}}])
def test_no_arguments(mcp, arguments):
    """Missing and null arguments count as none; the error names the missing argument."""
    result = mcp.result("tools/call", {"name": "get_handoff", **arguments})

    assert True is result["isError"]
    assert "get_handoff: id is missing." == result["content"][0]["text"].splitlines()[0]


@pytest.mark.parametrize("name", ["list_handoffs", "", "\x00", "create_handoff "])
def test_an_unknown_tool(mcp, name):
    """An unknown tool gets a result that lists the tools, as MCP's own libraries do it."""
    result = mcp.result("tools/call", {"name": name, "arguments": {}})

    assert True is result["isError"]
    assert f"Tools: {', '.join(TOOLS)}" in result["content"][0]["text"]


@pytest.mark.parametrize("name", [None, 5, ["get_handoff"], {}])
def test_a_tool_without_a_name(mcp, name):
    """A call without a tool's name is the client's mistake."""
    assert -32602 == mcp.request("tools/call", {"name": name, "arguments": {}})["error"]["code"]


def test_an_unknown_argument_is_refused_by_name(mcp):
    """An unknown argument is refused by its name, and nothing is done."""
    text = mcp.refusal("create_handoff", title="t", content="c", priority="high")

    assert "create_handoff: there is no argument 'priority'." == text.splitlines()[0]


def test_an_id_may_be_a_text_or_a_number(mcp):
    """The answer carries the id as it was given."""
    for given in ("abc", 0, -5, 2**60, ""):
        mcp.send({"jsonrpc": "2.0", "id": given, "method": "ping"})
        assert {"jsonrpc": "2.0", "id": given, "result": {}} == mcp.receive()


def test_several_requests_in_one_breath(mcp):
    """Several requests in one write are answered in their order."""
    frames = [{"jsonrpc": "2.0", "id": number, "method": "ping"} for number in range(50)]
    mcp.send(b"\n".join(json.dumps(frame).encode() for frame in frames))

    assert list(range(50)) == [mcp.receive()["id"] for _ in frames]


def test_a_pasted_id_is_known_as_used(served):
    """An id with quotation marks or a full stop can be marked as read by code in a project."""
    project = served.project("used")
    with Mcp(served, "code", project) as code:
        thread = code.create(as_client="chat")
        last = code.mark(f"`{thread}`.")
        assert [] == code.new(f'"{thread}"')

    assert 0 < last


def test_a_long_thread_comes_whole(served):
    """A reply may be longer than the limit of a request."""
    with Mcp(served) as mcp:
        thread = mcp.create("ä" * 100_000)
        for _ in range(4):
            mcp.add(thread, "ä" * 100_000)
        got = mcp.get(thread, as_client="code")

    assert ["ä" * 100_000] * 5 == [entry["content"] for entry in got["new_entries"]]


def test_a_request_that_is_too_long_is_refused(served):
    """Over 1 MiB the connection says so and ends; the next one works."""
    with Mcp(served) as mcp:
        mcp.send({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"x": "x" * (1 << 20)}})
        assert "1048576 bytes" in mcp.receive()["error"]["message"]
        assert b"" == mcp.receive_line()
    with Mcp(served) as mcp:
        assert {} == mcp.result("ping")


def test_one_who_asks_without_pause_does_not_keep_the_others(live):
    """While one connection has a thousand calls waiting, another one is answered in between."""
    with Mcp(live) as busy, Mcp(live) as other:
        thread = busy.create()
        call = {
            "name": "add_to_handoff",
            "arguments": {"id": thread, "type": "task", "content": "x"},
        }
        lines = [
            json.dumps({"jsonrpc": "2.0", "id": n, "method": "tools/call", "params": call})
            for n in range(1000)
        ]
        busy.send("\n".join(lines).encode())
        before = len(other.get(thread)["entries"])
        for _ in lines:
            busy.receive()
        after = len(other.get(thread)["entries"])

    assert 1001 == after
    assert before < after
