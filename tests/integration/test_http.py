"""MCP over HTTP: its answers, its access rules, and that it answers as the socket does."""

import asyncio
import json
import re
import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

pytest.importorskip("mcp", reason="the package mcp is missing: pip install 'handoffd[http]'")

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from conftest import DaemonSandbox
from handoff import __version__
from http_clients import INITIALIZE, MODERN, MODERN_META, frame, open_listener, rest

pytestmark = pytest.mark.quick

LIMIT = 1 << 20
MODES = ["legacy", "auto", MODERN]


@pytest.fixture(scope="module")
def listener(tmp_path_factory):
    """A client of one daemon with HTTP turned on, for all tests that do not change it."""
    runtime = Path(tempfile.mkdtemp(prefix="ho-", dir="/tmp"))
    sandbox = DaemonSandbox(tmp_path_factory.mktemp("http"), runtime)
    settings = {"allowed_hosts": ["bridge.example"], "allowed_origins": ["https://app.example"]}
    yield open_listener(sandbox, secret_path=True, **settings)
    sandbox.kill()
    shutil.rmtree(runtime, ignore_errors=True)


def with_sdk(listener, conversation, mode="auto", url=""):
    """Hold a conversation by the SDK's own client."""

    async def hold():
        headers = {} if url else {"Authorization": f"Bearer {listener.token}"}
        async with (
            httpx2.AsyncClient(headers=headers) as client,
            Client(
                streamable_http_client(url or listener.url, http_client=client), mode=mode
            ) as mcp,
        ):
            return await conversation(mcp)

    return asyncio.run(hold())


@pytest.mark.parametrize("mode", MODES)
def test_the_sdks_client_uses_all_five_tools(listener, mode):
    """The SDK's own client, in the old and the new way, creates, adds, reads, marks and closes."""

    async def conversation(mcp):
        async def call(name, **arguments):
            result = await mcp.call_tool(name, arguments)
            assert not result.is_error, result
            assert result.structured_content == json.loads(result.content[0].text)
            return result.structured_content

        names = [tool.name for tool in (await mcp.list_tools()).tools]
        made = await call("create_handoff", title="Auth", content="JWT", project="shop")
        ident = made["handoff"]["id"]
        await call("add_to_handoff", id=ident, type="question", content="7 d?", as_client="code")
        got = await call("get_handoff", id=ident)
        marked = await call("mark_handoff_read", id=ident)
        again = await call("get_handoff", id=ident)
        closed = await call("close_handoff", id=ident)
        return names, made, got, marked, again, closed

    names, made, got, marked, again, closed = with_sdk(listener, conversation, mode)

    assert [
        "create_handoff",
        "get_handoff",
        "add_to_handoff",
        "mark_handoff_read",
        "close_handoff",
    ] == names
    assert ["chat"] == [entry["from_client"] for entry in made["entries"]]
    assert [("code", "7 d?")] == [(e["from_client"], e["content"]) for e in got["new_entries"]]
    assert (True, "chat") == (marked["marked_read"], marked["client"])
    assert 0 == again["new_count"]
    assert {"closed": True, "id": made["handoff"]["id"], "title": "Auth"} == closed


@pytest.mark.parametrize("mode", MODES)
def test_the_sdks_client_on_the_secret_path(listener, mode):
    """The SDK's client works without a header, at the address that holds the token."""

    async def conversation(mcp):
        return (await mcp.call_tool("get_handoff", {"id": "hof_" + "x" * 21})).content[0].text

    text = with_sdk(listener, conversation, mode, f"{listener.url}/{listener.token}")

    assert "not found" in text


def native(listener, method: str, params: dict | None = None) -> dict:
    """Send the same request over the socket."""
    return listener.sandbox.request(method, **(params or {}))["result"]


def play(call) -> list[dict]:
    """Play one story, with some mistakes in it, and return every result."""
    found = [call("create_handoff", {"title": "T", "content": "C ü", "project": "p"})]
    ident = found[0]["structuredContent"]["handoff"]["id"]
    for tool, arguments in (
        ("create_handoff", {"title": "T"}),
        ("create_handoff", {"title": "T", "content": "C", "as_client": "nobody"}),
        ("add_to_handoff", {"id": ident, "type": "progress", "content": "x", "as_client": "code"}),
        ("add_to_handoff", {"id": ident, "type": "song", "content": "x"}),
        ("get_handoff", {"id": ident}),
        ("get_handoff", {"id": "hof_none"}),
        ("get_handoff", {"id": ident, "wish": 1}),
        ("mark_handoff_read", {"id": ident, "up_to": 1}),
        ("mark_handoff_read", {"id": ident}),
        ("close_handoff", {"id": ident}),
        ("close_handoff", {"id": ident}),
        ("add_to_handoff", {"id": ident, "type": "done", "content": "x"}),
        ("get_handoff", {"id": ident}),
        ("no_such_tool", {}),
    ):
        found.append(call(tool, arguments))
    return found


def normal(results: list[dict]) -> list[dict]:
    """Remove the values that differ between threads: the id, the time, the count of entries."""
    text = json.dumps(results)
    ident = re.search(r"hof_[A-Za-z0-9_-]{21}", text)[0]
    text = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "TIME", text.replace(ident, "ID"))
    first = int(re.search(r'\\"seq\\":(\d+)', text)[1])
    numbered = r'(seq|last_seen)(\\?": ?)(\d+)'
    return json.loads(
        re.sub(numbered, lambda m: f"{m[1]}{m[2]}{max(int(m[3]) - first + 1, 0)}", text)
    )


@pytest.mark.parametrize("modern", [False, True], ids=["handshake", "modern"])
def test_results_are_those_of_the_socket(listener, modern):
    """Every result and every error of a tool is the same over HTTP and over the socket."""
    meta = {"_meta": MODERN_META} if modern else {}
    ask = listener.ask_modern if modern else listener.ask
    by_http = play(lambda name, given: ask("tools/call", {"name": name, "arguments": given}))
    by_socket = play(
        lambda name, given: native(
            listener, "tools/call", {"name": name, "arguments": given, **meta}
        )
    )

    assert normal(by_socket) == normal(by_http)


@pytest.mark.seed("000", "Handoffs live in `core.db` -- accessible from both")
def test_a_thread_is_one_by_socket_and_http(listener):
    """An entry written over HTTP is read over the socket, and the other way round."""
    made = listener.call("create_handoff", title="T", content="by HTTP", as_client="code")
    ident = made["handoff"]["id"]
    given = {"name": "get_handoff", "arguments": {"id": ident}}

    assert native(listener, "tools/call", given) == listener.ask("tools/call", given)
    assert 1 == native(listener, "tools/call", given)["structuredContent"]["new_count"]


@pytest.mark.parametrize("version", ["2025-06-18", "2025-11-25"])
def test_handshake_is_that_of_the_socket(listener, version):
    """HTTP and the socket have the same handshake, and accept the requested version."""
    params = {**INITIALIZE, "protocolVersion": version}
    greeting = listener.ask("initialize", params, MCP_Protocol_Version=None)

    assert native(listener, "initialize", params) == greeting
    assert version == greeting["protocolVersion"]


def test_unknown_version_gets_the_latest_handshake(listener):
    """A handshake for an unknown version is answered with the latest one."""
    params = {**INITIALIZE, "protocolVersion": "2031-01-01"}

    assert (
        "2025-11-25"
        == listener.ask("initialize", params, MCP_Protocol_Version=None)["protocolVersion"]
    )


def test_lists_and_discovery_are_those_of_the_socket(listener):
    """The tools and the discovery are the same as on the socket, in the old and the new version."""
    meta = {"_meta": MODERN_META}

    assert native(listener, "tools/list") == listener.ask("tools/list")
    assert native(listener, "tools/list", meta) == listener.ask_modern("tools/list")
    assert native(listener, "server/discover", meta) == listener.ask_modern("server/discover")
    assert {} == native(listener, "ping") == listener.ask("ping")


def test_version_we_do_not_speak(listener):
    """A request in an unknown version gets an error that lists the supported versions."""
    meta = {**MODERN_META, "io.modelcontextprotocol/protocolVersion": "2031-01-01"}
    headers = {"MCP-Protocol-Version": "2031-01-01", "Mcp-Method": "tools/list"}
    answer = listener.post(frame("tools/list", {"_meta": meta}), **headers)

    assert (400, -32022) == (answer.status, answer.json["error"]["code"])
    assert [MODERN] == answer.json["error"]["data"]["supported"]


@pytest.mark.parametrize("version", [None, "2024-11-05", "2025-03-26"])
def test_client_of_an_older_version(listener, version):
    """A client of no version or of an older one gets the same result, and as a text, too."""
    given = {"name": "get_handoff", "arguments": {"id": "hof_none"}}
    params = {**INITIALIZE, "protocolVersion": version or "2025-03-26"}
    greeting = listener.ask("initialize", params, MCP_Protocol_Version=None)

    assert params["protocolVersion"] == greeting["protocolVersion"]
    assert native(listener, "tools/call", given) == listener.ask(
        "tools/call", given, MCP_Protocol_Version=version
    )


def test_notification_is_accepted(listener):
    """A notification gets no answer."""
    answer = listener.post({"jsonrpc": "2.0", "method": "notifications/initialized"})

    assert (202, b"") == (answer.status, answer.body)


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"[]",
        b"{}",
        b'"x"',
        b"\xff",
        b"[" * 5000,
        b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]',
    ],
)
def test_what_is_no_request(listener, body):
    """A body that is no JSON-RPC request is a 400, and the next one is answered."""
    assert 400 == listener.post(body).status
    assert {} == listener.ask("ping")


def test_unknown_method(listener):
    """An unknown method is an error at once."""
    assert -32601 == listener.post(frame("resources/list")).json["error"]["code"]


@pytest.mark.parametrize("value", [None, "Bearer wrong", "Basic eDp5", "Bearer "])
def test_without_the_token(listener, value):
    """Without the token nothing is answered but 401 and a challenge."""
    answer = listener.post(frame("tools/list"), Authorization=value)

    assert 401 == answer.status
    assert answer.headers["www-authenticate"].startswith('Bearer realm="handoffd"')
    assert b"create_handoff" not in answer.body


def test_token_elsewhere_is_no_token(listener):
    """A token in the query or in another header opens nothing."""
    assert (
        401
        == listener.post(
            frame("ping"), path=f"/mcp?auth={listener.token}", Authorization=None
        ).status
    )
    assert (
        401 == listener.post(frame("ping"), Authorization=None, X_Auth_Token=listener.token).status
    )


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:{port}", "localhost:1", "127.0.0.1"]
)
def test_evil_host(listener, host):
    """A name that is not ours is misdirected, with the token and at /health, too."""
    host = host.format(port=listener.port)

    assert 421 == listener.post(frame("ping"), Host=host).status
    assert 421 == listener.send("GET", "/health", headers={"Host": host}).status
    assert 421 == listener.post(frame("ping"), path=f"/mcp/{listener.token}", Host=host).status


@pytest.mark.parametrize("host", ["localhost:{port}", "[::1]:{port}", "bridge.example"])
def test_host_of_ours(listener, host):
    """Loopback names with our port, and those of the configuration, are ours."""
    assert 200 == listener.post(frame("ping"), Host=host.format(port=listener.port)).status


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://localhost:1"])
def test_evil_origin(listener, origin):
    """A page from elsewhere is refused, with the token, too."""
    assert 403 == listener.post(frame("ping"), Origin=origin).status


@pytest.mark.parametrize("origin", ["http://localhost:{port}", "https://app.example"])
def test_origin_of_ours(listener, origin):
    """Our own origin and those of the configuration may speak."""
    assert 200 == listener.post(frame("ping"), Origin=origin.format(port=listener.port)).status


def test_a_page_gets_no_leave_to_read(listener):
    """No CORS header is ever sent: a browser shows a page nothing of ours."""
    asked = {"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"}
    answers = [
        listener.send("OPTIONS", "/mcp", headers=asked),
        listener.post(frame("ping"), Origin="https://app.example"),
    ]

    assert [403, 200] == [answer.status for answer in answers]
    assert not [name for answer in answers for name in answer.headers if "access-control" in name]


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", None])
def test_other_types(listener, kind):
    """A body of another content type than JSON is not read."""
    assert 415 == listener.post(frame("ping"), Content_Type=kind).status


def test_client_that_does_not_say_what_it_takes(listener):
    """Without an Accept header the answer is JSON."""
    answer = listener.post(frame("ping"), Accept=None)

    assert (200, "application/json") == (answer.status, answer.headers["content-type"])


def head(listener, *lines: str) -> bytes:
    text = (
        f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{listener.port}\r\n"
        f"Authorization: Bearer {listener.token}\r\nContent-Type: application/json\r\n"
        "Accept: application/json\r\n"
    )
    return (text + "".join(f"{line}\r\n" for line in lines) + "\r\n").encode()


def test_body_of_the_limit(listener):
    """A body of exactly 1 MiB is read."""
    body = json.dumps(frame("ping")).encode()

    assert 200 == listener.post(body + b" " * (LIMIT - len(body))).status


def test_body_over_the_limit_is_not_waited_for(listener):
    """A body that is declared longer is refused before it arrives, and the connection ends."""
    with listener.raw(head(listener, f"Content-Length: {LIMIT + 1}")) as connection:
        answer = rest(connection)

    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"connection: close" in answer.lower()


def test_chunked_body_over_the_limit(listener):
    """A body without a declared length is read to the limit and not beyond."""
    chunk = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
    with listener.raw(head(listener, "Transfer-Encoding: chunked")) as connection:
        sent = 0
        try:
            # Endless, if it were read on.
            while sent < 64 * LIMIT:
                connection.sendall(chunk)
                sent += len(chunk)
        except (BrokenPipeError, ConnectionResetError):
            pass
        answer = rest(connection)

    assert sent < 64 * LIMIT
    assert b"" == answer or answer.startswith(b"HTTP/1.1 413 ")


def test_chunked_body_a_little_over_the_limit(listener):
    """A client that sends one byte too many and then listens is told the reason."""
    chunk = b"%x\r\n" % (LIMIT + 1) + b" " * (LIMIT + 1) + b"\r\n"
    with listener.raw(head(listener, "Transfer-Encoding: chunked") + chunk) as connection:
        answer = rest(connection)

    assert answer.startswith(b"HTTP/1.1 413 ")


def test_chunked_body(listener):
    """A body in chunks is read like any other."""
    body = json.dumps(frame("ping")).encode()
    chunk = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
    with listener.raw(
        head(listener, "Transfer-Encoding: chunked", "Connection: close") + chunk
    ) as sent:
        assert rest(sent).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", "HEAD"])
def test_only_post(listener, method):
    """There is no stream to GET and no session to DELETE; the answer names the allowed method."""
    headers = {"Authorization": f"Bearer {listener.token}", "Accept": "text/event-stream"}
    answer = listener.send(method, "/mcp", headers=headers)

    assert (405, "POST") == (answer.status, answer.headers["allow"])


@pytest.mark.parametrize(
    "path", ["/", "/mcp/", "/mcp/wrong", "/sse", "/.well-known/oauth-protected-resource"]
)
def test_nothing_else_is_there(listener, path):
    """Any other path is a 404."""
    assert 404 == listener.post(frame("ping"), path=path).status


def test_health(listener):
    """/health answers without a token, with our presence and version, and no more."""
    answer = listener.send("GET", "/health")

    assert (200, {"status": "ok", "version": __version__}) == (answer.status, answer.json)
    assert {"content-type", "content-length", "date"} == set(answer.headers)


def test_stale_session(listener):
    """An unknown session id has no effect; the daemon assigns none."""
    answer = listener.post(frame("tools/list"), Mcp_Session_Id="stale-since-yesterday")

    assert 200 == answer.status
    assert "mcp-session-id" not in listener.post(frame("initialize", INITIALIZE)).headers


def test_garbage_does_no_harm(listener):
    """Data that is no HTTP gets an error or nothing, and the next request is answered."""
    for data in (b"GARBAGE\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00", b"GET /mcp HTTP/9.9\r\n\r\n"):
        with listener.raw(data + b"\r\n\r\n") as connection:
            answer = rest(connection)
        assert b"" == answer or answer.startswith(b"HTTP/1.1 4")
    assert {} == listener.ask("ping")


def test_many_at_once(listener):
    """Twenty clients at once add to one thread: every entry is there once, in one order."""
    ident = listener.call("create_handoff", title="T", content="first")["handoff"]["id"]

    def add(number: int) -> int:
        given = {"type": "progress", "content": str(number), "as_client": "code"}
        return listener.call("add_to_handoff", id=ident, **given)["entry"]["seq"]

    with ThreadPoolExecutor(20) as pool:
        seqs = list(pool.map(add, range(200)))
    entries = listener.call("get_handoff", id=ident)["entries"][1:]

    assert sorted(seqs) == [entry["seq"] for entry in entries]
    assert {str(number) for number in range(200)} == {entry["content"] for entry in entries}


def test_secrets_stay_out_of_the_log(listener):
    """Neither the token, nor a path that holds it, nor a thread's words are in the log."""
    listener.call("create_handoff", title="T", content="words of a thread")
    listener.post(frame("ping"), path=f"/mcp/{listener.token}")
    listener.send("GET", f"/mcp/{listener.token}")
    with listener.raw(f"BROKEN /mcp/{listener.token}\r\n\r\n".encode()) as connection:
        rest(connection)
    logged = listener.sandbox.log.read_text()

    assert listener.token not in logged
    assert "words of a thread" not in logged
    assert "http_open" in logged
