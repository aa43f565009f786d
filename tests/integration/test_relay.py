"""`handoff mcp`: MCP on stdin and stdout, with a daemon, without one, and while it goes away."""

import contextlib
import json
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import handoff
import handoffd
from conftest import BIN, wait_for
from handoff import __version__
from handoff.common import wire
from handoff.mcp_relay.answerer import Lines
from mcp_socket_client import Mcp, ask, configure, envelope, serving
from relay_client import PATIENT, Pretender, Relayed, clear, hanging, holder, kill_daemon, stopped

OURS = {"result": {"protocol": wire.PROTOCOL, "version": __version__, "data": {}}}
BROKEN = "[threads\n"


@pytest.fixture
def home(sandbox):
    """A HOME in which relays may start daemons and other processes."""
    sandbox.transcripts.mkdir(parents=True)
    # Here lies the lock by which one relay starts a daemon for all.
    sandbox.state.mkdir(parents=True, mode=0o700)
    yield sandbox
    sandbox.kill()
    clear(sandbox)


@pytest.fixture
def served(home):
    """The same with a running daemon."""
    return home.start()


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """A running daemon that no test here changes."""
    with serving(tmp_path_factory.mktemp("shared")) as found:
        yield found
    clear(found)


@pytest.fixture
def pretended(home):
    """The same with a process that pretends to be the daemon."""
    path = home.runtime / "pretender.sock"
    home.environment["HANDOFFD_SOCKET"] = str(path)
    with Pretender(str(path), OURS) as found:
        yield found


def frame(number, method="ping", **params):
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def call(number, tool, **arguments):
    return frame(number, "tools/call", name=tool, arguments=arguments)


def lines(*frames):
    return b"".join(json.dumps(found).encode() + b"\n" for found in frames)


def contents(sandbox):
    return [row[0] for row in ask(sandbox, "SELECT content FROM handoff_entries ORDER BY seq")]


# The wire


@pytest.mark.quick
def test_answers_are_the_daemons(shared):
    """The daemon's answers reach the client byte for byte, and nothing else is on stdout."""
    questions = [frame(1, "initialize", protocolVersion="2025-11-25"), frame(2, "tools/list")]
    with Mcp(shared, "chat") as direct:
        expected = []
        for question in questions:
            direct.send(question)
            expected.append(direct.receive_line())
    with Relayed(shared, limits=PATIENT) as relay:
        out, _ = relay.process.communicate(lines(*questions), timeout=60)

    assert b"".join(expected) == out
    assert 0 == relay.process.returncode


LOADED = {
    "_json", "_socket", "select", "handoff", "handoff.fast", "handoff.common",
    "handoff.common.paths", "handoff.common.wire", "handoff.mcp_relay",
    "handoff.mcp_relay.answerer", "handoff.mcp_relay.relay",
}  # fmt: skip
LOADED_ALONE = LOADED | {
    "__future__", "_collections_abc", "fcntl", "handoff.mcp_relay.child_processes", "handoff.common.errors",
    "handoff.local", "handoffd", "handoffd.api",
    "handoffd.api.mcp_initialize", "types",
}  # fmt: skip


def loaded(sandbox, *frames):
    """Return the modules that a relay loads to answer these frames, without the interpreter's."""
    sites = {os.path.dirname(os.path.dirname(module.__file__)) for module in (handoff, handoffd)}
    text = (
        f"import sys; bare = set(sys.modules); sys.path += {list(sites)!r}; "
        "from handoff.mcp_relay import relay; relay.run('chat'); "
        "sys.stderr.write(' '.join(set(sys.modules) - bare))"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", text], input=lines(*frames), env=sandbox.environment,
        capture_output=True, check=True, timeout=60,
    )  # fmt: skip
    assert len(frames) == len(done.stdout.splitlines())
    return set(done.stderr.decode().split())


@pytest.mark.quick
def test_it_loads_next_to_nothing(shared):
    """A relay loads neither os, re, json, asyncio nor argparse, and nothing of the daemon's."""
    thread = call(2, "create_handoff", title="t", content="c")

    assert LOADED == loaded(shared, frame(1, "initialize"), thread)


def test_it_loads_little_without_a_daemon(home):
    """Without a daemon the relay answers a request for the tools without json or pydantic."""
    found = loaded(home, frame(1, "initialize"), frame(2, "tools/list"), frame(3, "nothing"))

    assert set() == found - LOADED_ALONE


@pytest.mark.quick
def test_lines_come_in_any_pieces(shared):
    """Half a line waits for the rest; many lines at once are all answered; CR does not matter."""
    with Relayed(shared) as relay:
        whole = json.dumps(frame(1)).encode() + b"\r\n"
        for number in range(len(whole)):
            relay.write(whole[number : number + 1])
        one = relay.receive()
        relay.write(b"\n  \r\n" + lines(*map(frame, range(2, 200))) + b'{"jsonrpc":"2.0",')
        many = [relay.receive()["id"] for _ in range(198)]
        relay.write(b'"id":200,"method":"ping"}')
        code, last = relay.finish()

    assert 1 == one["id"]
    assert list(range(2, 200)) == many
    assert (0, [200]) == (code, [reply["id"] for reply in last])


@pytest.mark.quick
@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"nonsense", -32700),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping"} and more', -32700),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":"\t"}}', -32700),
        (b'{"jsonrpc":"2.0","id":1,"method":"\xff"}', -32700),
        (b"\x00\x01", -32700),
        (b"[" * 100_000, -32700),
        (b"3", -32600),
        (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', -32600),
        (b'{"jsonrpc":"2.0","id":1}', -32600),
        (b'{"jsonrpc":"2.0","id":[1],"method":"ping"}', -32600),
    ],
)
def test_what_is_no_request(shared, line, code):
    """A line that is no JSON or no request gets JSON-RPC's error; the next request is answered."""
    with Relayed(shared) as relay:
        relay.send(line)
        reply = relay.receive()
        after = relay.request("ping")

    assert (None, code) == (reply["id"], reply["error"]["code"])
    assert {} == after["result"]


def test_what_nests_too_deeply(shared):
    """A request of any depth is answered, by its own id unless not even that can be read."""
    depths = (10, 900, 950, 975, 985, 990, 1000, 100_000)
    with Relayed(shared, limits=PATIENT) as relay:
        for depth in depths:
            value = b"[" * depth + b"]" * depth
            relay.send(
                b'{"jsonrpc":"2.0","id":%d,"method":"ping","params":{"a":%s}}' % (depth, value)
            )
        replies = [relay.receive() for _ in depths]
        after = relay.request("ping")

    found = {reply["id"] for reply in replies} - {None}
    assert {10} <= found <= set(depths) - {100_000}
    unread = [reply for reply in replies if reply["id"] is None]
    assert len(depths) - len(found) == len(unread)
    assert {wire.PARSE_ERROR} == {reply["error"]["code"] for reply in unread}
    assert {} == after["result"]


def test_what_only_the_daemon_cannot_read(home, pretended):
    """A request refused by the daemon without an id is answered with the id that the relay read."""
    pretended.reply = {"id": None, "error": {"code": wire.PARSE_ERROR, "message": "no JSON"}}
    with Relayed(home, limits=PATIENT) as relay:
        replies = [relay.request(method) for method in ("ping", "tools/call")]

    assert [wire.INVALID_REQUEST] * 2 == [reply["error"]["code"] for reply in replies]


def test_what_wants_no_answer(shared):
    """Notifications, and answers to requests that were never made, get no answer."""
    with Relayed(shared) as relay:
        relay.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        relay.send({"jsonrpc": "2.0", "id": 7, "result": {}})
        relay.send({"jsonrpc": "2.0", "id": 8, "error": {"code": 1, "message": "no"}})
        code, replies = relay.finish()

    assert (0, []) == (code, replies)


def test_ids_of_every_kind(shared):
    """An id comes back as it was: a number, a text, also an id that is used twice."""
    ids = [0, -1, 2**60, "a", "ü\u2028", "a", None]
    with Relayed(shared) as relay:
        relay.write(lines(*map(frame, ids)))
        found = [relay.receive()["id"] for _ in ids]

    assert ids == found


def test_too_long_a_line(shared):
    """A request over 1 MiB is answered by its id with the limit; the conversation goes on."""
    with Relayed(shared) as relay:
        thread = relay.create()
        for content in ("x" * wire.REQUEST_MAX_BYTES, "y" * (3 << 20)):
            reply = relay.request(
                "tools/call",
                {"name": "add_to_handoff", "arguments": {"id": thread, "content": content}},
            )
            assert wire.INVALID_REQUEST == reply["error"]["code"]
            assert f"{wire.REQUEST_MAX_BYTES} bytes" in reply["error"]["message"]
        seq = relay.add(thread, "short enough")

        assert [seq] == [entry["seq"] for entry in relay.get(thread)["entries"][1:]]
        assert "" == relay.stderr


def test_a_line_that_is_not_even_kept(shared):
    """A line over 4 MiB is refused without its id, because so much text is not kept."""
    with Relayed(shared) as relay:
        relay.send(frame(1, "ping", text="x" * (4 << 20)))
        reply = relay.receive()
        after = relay.request("ping")

    assert (None, wire.INVALID_REQUEST) == (reply["id"], reply["error"]["code"])
    assert {} == after["result"]


def test_the_longest_line(shared):
    """A line of exactly the limit, its key included, is passed on to the daemon."""
    with Relayed(shared) as relay:
        # The daemon's answer is that of the tool: so much content is too much for an entry.
        start, end = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"', b'"}}'
        once = len(',"once":"."') + 24 + 1
        room = wire.REQUEST_MAX_BYTES - len(start) - len(end) - once
        relay.send(start + b"n" * room + end)
        fits = relay.receive()
        start = start.replace(b'"id":1', b'"id":2')
        relay.process.kill()
    with Relayed(shared) as relay:
        relay.send(start + b"n" * (room + 1) + end)
        beyond = relay.receive()

    assert "There is no tool" in fits["result"]["content"][0]["text"]
    assert (2, wire.INVALID_REQUEST) == (beyond["id"], beyond["error"]["code"])


def test_lines_beyond_any_measure():
    """A line beyond the limit is not kept; the next line is whole again."""
    found = Lines(10)

    assert [] == found.feed(b"12345")
    assert [] == found.feed(b"678901234567890")
    assert [None, b"abc", b""] == found.feed(b"12345\nabc\n\nde")
    assert [b"de"] == found.finish()


def test_replies_of_any_size(shared):
    """An answer of several MiB arrives whole, while the client is slow to read it."""
    with Relayed(shared) as relay:
        thread = relay.create()
        for letter in "abcdefgü":
            relay.add(thread, letter * (100 << 10), as_client="code")
        relay.send(call("all", "get_handoff", id=thread))
        wait_for(lambda: relay.unread() > 1 << 15, 60)
        relay.rest()
        line = relay.receive_line()
        got = json.loads(line)["result"]["structuredContent"]

    assert 3 << 20 < len(line)
    assert 9 == len(got["entries"])
    assert "ü" * (100 << 10) == got["entries"][-1]["content"]


@pytest.mark.parametrize("method", ["tools/call", "ping"])
def test_what_nobody_reads_is_bounded(home, pretended, method):
    """While 4 MiB of answers are unread nothing more is read or asked; then the relay goes on."""
    pretended.reply = {"result": {"said": "x" * (1 << 20)}}
    with Relayed(home, limits=PATIENT) as relay:
        relay.write(lines(*(frame(number, method) for number in range(30))))
        wait_for(lambda: len(pretended.named(method)) >= 4, 60)
        relay.rest()
        # More than a pipe holds, so that a reader is needed.
        more = lines(*(frame(number, method, text="y" * 50_000) for number in range(30, 60)))
        sending = threading.Thread(target=relay.write, args=[more])
        sending.start()
        relay.rest()
        asked, written = len(pretended.named(method)), not sending.is_alive()
        found = [relay.receive()["id"] for _ in range(60)]
        sending.join()

    assert (5, False) == (asked, written)
    assert list(range(60)) == found


def test_an_answer_that_waits_for_the_client(home, pretended):
    """A call that waits for the client to read is not given up, however long that takes."""
    pretended.reply = {"result": {"said": "x" * (5 << 20)}}
    late = home.home / "late"
    before = (
        "import posix, time; now = time.monotonic\n"
        f"time.monotonic = lambda: now() + ('late' in posix.listdir({str(home.home)!r})) * 1000"
    )
    with Relayed(home, limits=PATIENT, before=before) as relay:
        relay.write(lines(frame(1, "tools/call"), frame(2, "tools/call")))
        wait_for(lambda: relay.unread() > 1 << 15)
        relay.rest()
        late.touch()
        found = [relay.receive() for _ in range(2)]

    assert [(1, True), (2, True)] == [(reply["id"], "result" in reply) for reply in found]


def test_many_descriptors(shared):
    """A relay works with any number of inherited open descriptors."""
    before = (
        "import os, resource\n"
        "hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))\n"
        "for _ in range(1100): os.dup(2)"
    )
    with Relayed(shared, before=before) as relay:
        assert 1 == len(relay.get(relay.create())["entries"])
        assert "" == relay.stderr


def test_a_client_that_does_not_read(shared):
    """A client may write all its requests before it reads an answer."""
    with Relayed(shared) as relay:
        relay.write(lines(*(frame(number, "tools/list") for number in range(2000))))
        found = [relay.receive()["id"] for _ in range(2000)]

    assert list(range(2000)) == found


# Beginning and end


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("running", [True, False])
def test_signals_end_it_quietly(home, number, running):
    """SIGINT and SIGTERM end a relay without output."""
    if running:
        home.start()
    with Relayed(home) as relay:
        relay.request("ping")
        relay.process.send_signal(number)
        out, _ = relay.process.communicate(timeout=90)

        assert (0, b"", "") == (relay.process.returncode, out, relay.stderr)


@pytest.mark.quick
@pytest.mark.parametrize("running", [True, False])
def test_the_end_of_stdin(home, running):
    """At the end of stdin the pending requests are still answered, then the relay exits with 0."""
    if running:
        home.start()
    with Relayed(home) as relay:
        for number in range(50):
            relay.send(call(number, "create_handoff", title="t", content=str(number)))
        code, replies = relay.finish()

    assert (0, list(range(50))) == (code, [reply["id"] for reply in replies])
    assert [str(number) for number in range(50)] == contents(home)


def test_nobody_listens(shared):
    """A relay whose stdout was closed ends quietly."""
    with Relayed(shared) as relay:
        relay.request("ping")
        relay.process.stdout.close()
        relay.send(frame(1))
        relay.process.wait(90)

        assert (0, "") == (relay.process.returncode, relay.stderr)


@pytest.mark.parametrize("closed", ["0<&-", "1>&-", "2>&-", "0<&- 1>&- 2>&-"])
def test_closed_from_the_beginning(shared, closed):
    """Without stdin, stdout or stderr the relay takes no socket for them, and ends quietly."""
    text = f"printf '%s\\n' '{json.dumps(frame(1))}' | \"$0\" mcp {closed}"
    done = subprocess.run(
        ["sh", "-c", text, str(BIN / "handoff")],
        env=shared.environment, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip

    assert (0, "") == (done.returncode, done.stderr)
    assert (1 if closed == "2>&-" else 0) == len(done.stdout.splitlines())


@pytest.mark.quick
def test_usage(sandbox):
    """--help shows the entry for Claude Code; an unknown side is a usage error."""
    shown = sandbox.handoff("mcp", "--help").stdout
    wrong = sandbox.handoff("mcp", "--client", "desktop")

    assert "claude mcp add --scope user handoffd -- handoff mcp --client code" in shown
    assert (2, "") == (wrong.returncode, wrong.stdout)


# The identity of the client


@pytest.mark.quick
@pytest.mark.parametrize(
    ("words", "given", "side"),
    [
        ((), {}, "chat"),
        (("--client", "chat"), {}, "chat"),
        (("--client", "code"), {}, "code"),
        (("--client=code",), {}, "code"),
        (("--client", "code"), {"as_client": "chat"}, "chat"),
        ((), {"as_client": "code"}, "code"),
    ],
)
def test_whose_words_they_are(shared, words, given, side):
    """A call counts for chat, or for the side of --client; as_client wins."""
    with Relayed(shared, *words) as relay:
        thread = relay.create(**given)
        relay.add(thread, **given)
        got = relay.get(thread)

    assert [side, side] == [entry["from_client"] for entry in got["entries"]]


def test_whose_words_they_are_without_a_daemon(home):
    """The same holds without a daemon."""
    configure(home, BROKEN)
    with Relayed(home, "--client", "code") as relay:
        thread = relay.create()
        relay.add(thread, as_client="chat")
        got = relay.get(thread)

    assert ["code", "chat"] == [entry["from_client"] for entry in got["entries"]]


@pytest.mark.parametrize("given", ["project", "", "relative", "not utf-8"])
def test_the_hello(home, pretended, given):
    """Every connection begins with the client and its directory; the answer is not passed on."""
    directory = home.home / "work"
    directory.mkdir()
    value = {"project": "/some/project", "relative": "some/project", "not utf-8": "/a\udcff"}
    environment = {"CLAUDE_PROJECT_DIR": value.get(given)}
    with Relayed(home, "--client", "code", cwd=directory, env=environment, limits=PATIENT) as relay:
        reply = relay.request("ping")

    expected = "/some/project" if given == "project" else str(directory)
    assert "mcp" == pretended.frames[0]["method"]
    assert {"protocol": wire.PROTOCOL, "client": "code", "cwd": expected} == pretended.frames[0][
        "params"
    ]
    assert {"said": "ping"} == reply["result"]


@pytest.mark.parametrize("asked", ["2025-06-18", "2025-11-25", "1999-01-01", None])
@pytest.mark.parametrize("running", [True, False])
def test_handshakes(home, asked, running):
    """A version that we speak is taken, any other answered with the newest of those."""
    if running:
        home.start()
    with Relayed(home) as relay:
        result = relay.result("initialize", {"protocolVersion": asked} if asked else {})

    expected = asked if asked in ("2025-06-18", "2025-11-25") else "2025-11-25"
    assert expected == result["protocolVersion"]
    assert "handoffd" == result["serverInfo"]["name"]


@pytest.mark.parametrize("running", [True, False])
def test_without_a_handshake(home, running):
    """2026-07-28 needs no handshake; the refusal of an unknown version lists the known ones."""
    if running:
        home.start()
    with Relayed(home) as relay:
        found = relay.result("server/discover", {"_meta": envelope()})
        tools = relay.result("tools/list", {"_meta": envelope()})
        refused = relay.request("tools/list", {"_meta": envelope("2027-01-01")})
        named = {"_meta": envelope(), "name": "create_handoff"}
        made = relay.result("tools/call", {**named, "arguments": {"title": "t", "content": "c"}})

    assert ["2026-07-28"] == found["supportedVersions"]
    assert "complete" == tools["resultType"] == made["resultType"]
    assert ["2026-07-28"] == refused["error"]["data"]["supported"]


@pytest.mark.parametrize("state", ["running", "absent", "hanging"])
def test_unknown_methods(home, state):
    """A method of MCP that we lack is answered at once, also if the daemon hangs."""
    if state != "absent":
        home.start()
    hanging = stopped(home.process.pid) if state == "hanging" else contextlib.nullcontext()
    with hanging, Relayed(home) as relay:
        replies = [relay.request(method) for method in ("resources/list", "down", "status")]
        assert ["2026-07-28"] == relay.result("server/discover")["supportedVersions"]
        assert 5 == len(relay.result("tools/list")["tools"])

    assert [wire.METHOD_NOT_FOUND] * 3 == [reply["error"]["code"] for reply in replies]


# A daemon that goes away


def test_keys(home, pretended):
    """Every call has a unique key, also if the client gives it one; no other request has a key."""
    with Relayed(home, limits=PATIENT) as one, Relayed(home, limits=PATIENT) as other:
        one.request("tools/call", {"name": "a"}, once="mine")
        one.request("ping")
        one.request("tools/call", {"name": "b"})
        other.request("tools/call", {"name": "c"})
        raw = pretended.named("tools/call")

    keys = [found["once"] for found in raw]
    assert 3 == len(set(keys))
    assert "mine" not in keys
    assert ["ping"] == [found["method"] for found in pretended.named("ping") if "once" not in found]


@pytest.mark.quick
def test_what_was_not_answered_is_asked_again(home, pretended):
    """A call whose answer broke off is asked again with the same key, after a new hello."""
    pretended.patience += [2, 0, 0]
    with Relayed(home, limits=PATIENT) as relay:
        replies = [relay.request("tools/call", {"name": str(number)}) for number in range(4)]

        assert "" == relay.stderr
    asked = pretended.named("tools/call")

    assert [{"said": "tools/call"}] * 4 == [reply["result"] for reply in replies]
    assert ["0", "1", "2", "2", "2", "2", "3"] == [found["params"]["name"] for found in asked]
    assert 1 == len({found["once"] for found in asked if found["params"]["name"] == "2"})
    assert 4 == len(pretended.named("mcp"))


def doubted(home, pretended, tool):
    """Return the error of a call sent to two daemons, of which the second reports a failure."""
    failed = {"content": [{"type": "text", "text": "It is locked.\nTry again."}], "isError": True}
    pretended.patience += [0]
    pretended.reply = {"result": failed}
    with Relayed(home, limits=PATIENT) as relay:
        said = relay.refusal(tool)
        # This call was sent to one daemon only.
        assert "It is locked.\nTry again." == relay.refusal(tool)
    return said


@pytest.mark.parametrize(
    ("tool", "remedy"),
    [
        ("add_to_handoff", "look with get_handoff before you say it again"),
        ("create_handoff", "ask the user before you create it again"),
    ],
)
def test_an_error_after_a_call_was_handed_over(home, pretended, tool, remedy):
    """A call sent to a daemon that fell silent may be done: no error says only to try again."""
    assert f"It is locked.\nIt may have been kept: {remedy}." == doubted(home, pretended, tool)


def test_an_error_after_a_question(home, pretended):
    """A call that only reads may be repeated, also if a daemon has already received it."""
    assert "It is locked.\nTry again." == doubted(home, pretended, "get_handoff")


def test_an_error_of_the_protocol_after_a_call_was_handed_over(home, pretended):
    """The same holds for an error that is no tool's."""
    pretended.patience += [0]
    pretended.reply = {"error": {"code": wire.INTERNAL_ERROR, "message": "No."}}
    with Relayed(home, limits=PATIENT) as relay:
        reply = relay.request("tools/call", {"name": "add_to_handoff"})

    assert "No.\nIt may have been kept: look with get_handoff" in reply["error"]["message"]


def test_it_parts_while_idle(home, pretended):
    """An idle relay closes its connection and rests; the next request opens a new one."""
    with Relayed(home, limits={**PATIENT, "IDLE_SECONDS": 0.2}) as relay:
        for number in range(1, 4):
            assert {"said": "ping"} == relay.request("ping")["result"]
            assert {"said": "tools/call"} == relay.request("tools/call")["result"]
            wait_for(lambda: not pretended.connections)
            assert number <= len(pretended.named("mcp"))
        relay.rest()

        assert "" == relay.stderr


@pytest.mark.quick
def test_killed_between_requests(served, record_property):
    """If the daemon is killed between two calls, the next call starts it, and no error is seen."""
    longest = 0.0
    with Relayed(served, limits=PATIENT) as relay:
        thread = relay.create()
        for number in range(3):
            served.kill() if number == 0 else kill_daemon(served)
            began = time.monotonic()
            relay.add(thread, str(number))
            longest = max(longest, time.monotonic() - began)
        expected = relay.get(thread)["entries"]

        assert ["0", "1", "2"] == [entry["content"] for entry in expected[1:]]
        record_property("figure", f"3 of 3 answered by a new daemon, within {longest:.1f} s")
        assert "" == relay.stderr
        assert holder(served) > 1


def test_killed_in_the_middle(served):
    """Calls under way while the daemon is killed are all done, once, in their order."""
    with Relayed(served, limits=PATIENT) as relay:
        thread = relay.create()
        for number in range(400):
            given = {"id": thread, "type": "progress", "content": str(number)}
            relay.send(call(number, "add_to_handoff", **given))
        replies = []
        for number in range(400):
            replies.append(relay.receive())
            if number in (50, 150, 250):
                served.process = None
                kill_daemon(served)

        assert "" == relay.stderr

    assert list(range(400)) == [reply["id"] for reply in replies]
    assert not [reply for reply in replies if "error" in reply or reply["result"]["isError"]]
    assert [str(number) for number in range(400)] == contents(served)[1:]


def test_restarted_in_the_middle(served):
    """A client does not notice a `handoff restart`."""
    with Relayed(served, limits=PATIENT) as relay:
        thread = relay.create()
        done = threading.Event()
        found = []

        def add():
            while not done.is_set():
                found.append(relay.add(thread, str(len(found))))

        adding = threading.Thread(target=add)
        adding.start()
        restarted = served.handoff("restart")
        count = len(found)
        wait_for(lambda: len(found) > count)
        done.set()
        adding.join()

        assert (0, "") == (restarted.returncode, relay.stderr)
    served.process = None

    assert [str(number) for number in range(len(found))] == contents(served)[1:]


def test_an_idle_relay_lets_it_rest(served):
    """A daemon that a person ended is not started before a request needs it."""
    with Relayed(served, limits=PATIENT) as relay:
        relay.request("ping")
        served.stop()
        answer = relay.result("tools/list")

        assert 5 == len(answer["tools"])
        assert (0, []) == (holder(served), relay.children())


# No daemon


def systemctl(sandbox, script):
    """Put a program of ours in place of systemctl, which is asked first for a unit."""
    programs = sandbox.home / "bin"
    programs.mkdir()
    (programs / "systemctl").write_text(f"#!/bin/sh\n{script}\n")
    (programs / "systemctl").chmod(0o755)
    sandbox.environment["PATH"] = f"{programs}:{sandbox.environment['PATH']}"


def slow_to_start(sandbox):
    """Make the start of a daemon wait until a file is there."""
    gate = sandbox.home / "gate"
    systemctl(sandbox, f"while ! [ -e {gate} ]; do sleep 0.05; done; exit 1")
    return gate


@pytest.mark.quick
def test_it_starts_the_daemon(home):
    """Without a daemon the relay starts one.

    Requests for the tools are answered before it is up.
    """
    gate = slow_to_start(home)
    with Relayed(home) as relay:
        assert "2025-11-25" == relay.result("initialize")["protocolVersion"]
        assert 5 == len(relay.result("tools/list")["tools"])
        assert 0 == holder(home)
        relay.send(call("waits", "create_handoff", title="t", content="c"))
        relay.request("ping")
        gate.touch()
        made = relay.receive()

        assert ("waits", False) == (made["id"], made["result"]["isError"])
        assert (True, "") == (home.answers(), relay.stderr)


def test_a_start_that_takes_too_long(home):
    """A call does not wait for ever for a daemon that is being started: core.db answers it."""
    gate = slow_to_start(home)
    with Relayed(home, limits={"PATIENCE_SECONDS": 0.5}) as relay:
        thread = relay.create()

        assert 0 == holder(home)
        assert 1 == len(relay.get(thread)["entries"])
        gate.touch()


@pytest.mark.quick
def test_without_a_daemon(home):
    """If no daemon can be started, all five tools work from core.db, and one line says why."""
    configure(home, BROKEN)
    with Relayed(home) as relay:
        thread = relay.create("the beginning")
        relay.add(thread, "the middle", as_client="code")
        assert ["the middle"] == relay.new(thread)
        relay.mark(thread)
        assert [] == relay.new(thread)
        said = relay.stderr

        assert 1 == said.count("\n")
        assert "config.toml" in said
        assert "handoff doctor" in said
        # Whether a copy was wanted is in the configuration.
        assert "config.toml" in relay.refusal("close_handoff", id=thread)
        wait_for(lambda: not holder(home))  # a failed start may take its time
        relay.process.terminate()
        relay.process.wait(90)  # and with it the process that answered from core.db
    (home.home / ".config/handoffd/config.toml").unlink()
    gate = slow_to_start(home)
    with Relayed(home, limits={"PATIENCE_SECONDS": 0.1}) as relay:
        assert {"closed": True, "id": thread, "title": "A thread"} == relay.close(thread)
        gate.touch()


def test_the_daemon_comes_later(home):
    """A relay without a daemon returns to the daemon once there is one."""
    configure(home, BROKEN)
    with Relayed(home) as relay:
        thread = relay.create()
        alone = relay.children()
        (home.home / ".config/handoffd/config.toml").unlink()
        home.start()
        relay.add(thread, "by the daemon")
        wait_for(lambda: not relay.children())

        assert 1 == len(alone)
        assert ["by the daemon"] == [e["content"] for e in relay.get(thread)["entries"][1:]]


def test_it_does_without_no_longer_than_needed(home):
    """The process that answers from core.db ends when there was no call for a while."""
    configure(home, BROKEN)
    with Relayed(home, limits={"IDLE_SECONDS": 0.2, "START_PAUSE_SECONDS": 600}) as relay:
        thread = relay.create()
        wait_for(lambda: not relay.children())

        assert 1 == len(relay.get(thread)["entries"])


def test_a_start_that_failed(home):
    """A start that failed is not tried again for every call."""
    configure(home, BROKEN)
    tried = home.home / "tried"
    systemctl(home, f"echo x >> {tried}; exit 1")
    with Relayed(home, limits={"START_PAUSE_SECONDS": 600}) as relay:
        thread = relay.create()
        for _ in range(10):
            relay.add(thread)

        assert 1 == relay.stderr.count("\n")
    assert "x\n" == tried.read_text()


def test_a_hostile_directory(home):
    """Neither the relay nor its child processes load anything of the working directory."""
    project = home.project()
    configure(home, BROKEN)
    for name in ("handoff", "handoffd", "json", "os", "site", "sitecustomize", "pydantic", "re"):
        (project / f"{name}.py").write_text("open('pwned', 'w').close()\n")
    with Relayed(home, cwd=project) as relay:
        assert 1 == len(relay.get(relay.create())["entries"])

    assert not (project / "pwned").exists()


def test_nothing_can_be_kept(home):
    """If not even core.db can be made, the handshake works and a call reports the reason."""
    blocked = home.home / "blocked"
    blocked.write_text("")
    home.environment["XDG_STATE_HOME"] = str(blocked)
    with Relayed(home) as relay:
        assert 5 == len(relay.result("tools/list")["tools"])
        said = relay.refusal("create_handoff", title="t", content="c")

        assert str(blocked) in said
        assert str(blocked) in relay.stderr


def test_uses_are_noted_without_a_daemon(home):
    """A thread that is used as code counts as used in its project, also without a daemon."""
    project = home.project()
    gate = slow_to_start(home)
    with Relayed(
        home, limits={"PATIENCE_SECONDS": 0.1}, env={"CLAUDE_PROJECT_DIR": str(project)}
    ) as relay:
        thread = relay.create(as_client="code")
        gate.touch()
    rows = ask(
        home,
        "SELECT handoff_id, root FROM thread_uses JOIN projects ON projects.id = project_id",
    )

    assert [(thread, str(project))] == rows


# A daemon that does not fit


@pytest.mark.parametrize(
    "greeting",
    [
        {"result": {"protocol": 99, "version": "9.9.9", "data": {}}},
        {
            "error": {
                "code": wire.INVALID_REQUEST,
                "message": "the client speaks protocol 1",
                "data": {"protocol": 99, "version": "9.9.9"},
            }
        },
        {
            "error": {
                "code": wire.METHOD_NOT_FOUND,
                "message": "There is no method 'mcp'",
                "data": {"protocol": wire.PROTOCOL, "version": "9.9.9"},
            }
        },
    ],
)
def test_another_version(home, greeting):
    """Beside a daemon of another version the tools work all the same; one line names both."""
    path = home.runtime / "other.sock"
    home.environment["HANDOFFD_SOCKET"] = str(path)
    with Pretender(str(path), greeting) as other, Relayed(home) as relay:
        assert "2025-11-25" == relay.result("initialize")["protocolVersion"]
        thread = relay.create()
        relay.add(thread)

        assert 2 == len(relay.get(thread)["entries"])
        said = relay.stderr
        assert 1 == said.count("\n")
        assert "9.9.9" in said
        assert __version__ in said
        assert "handoff restart" in said
        assert ["mcp"] == [found["method"] for found in other.frames]


def test_a_daemon_that_hangs(served):
    """A call to a daemon that hangs is answered from core.db, and is done once if it wakes up."""
    limits = {"PATIENCE_SECONDS": 0.5, "ANSWER_SECONDS": 0.5, "AVOID_SECONDS": 2}
    with Relayed(served, limits=limits) as relay:
        thread = relay.create()
        with hanging(served):
            seq = relay.add(thread, "while it hangs")

            assert "handoff restart" in relay.stderr
            assert 1 == relay.stderr.count("\n")
        wait_for(served.answers)
        # The daemon received that call, too, as the last one of that connection.
        relay.add(thread, "after it woke up")
        wait_for(lambda: relay.get(thread) and not relay.children())
        entries = relay.get(thread)["entries"][1:]

    assert ["while it hangs", "after it woke up"] == [entry["content"] for entry in entries]
    assert seq == entries[0]["seq"]


def test_nobody_answers(served):
    """If core.db cannot be had either, a call is an error that names the remedy; no hang."""
    limits = {"PATIENCE_SECONDS": 0.5, "ANSWER_SECONDS": 0.5, "CHILD_SECONDS": 2}
    with Relayed(served, limits=limits) as relay:
        thread = relay.create()
        database = sqlite3.connect(served.state / "core.db", isolation_level=None)
        with hanging(served), contextlib.closing(database):
            database.execute("BEGIN IMMEDIATE")
            relay.send(call("lost", "add_to_handoff", id=thread, type="done", content="x"))
            reply = relay.receive()
            again = relay.request("tools/list")

    assert ("lost", wire.INTERNAL_ERROR) == (reply["id"], reply["error"]["code"])
    assert "handoff restart" in reply["error"]["message"]
    # The daemon that received the call may still do it.
    assert "It may have been kept: look with get_handoff" in reply["error"]["message"]
    assert 5 == len(again["result"]["tools"])


def test_removed_under_it(served):
    """If its own package is gone with the daemon, the relay answers with errors and lives on."""
    sites = {os.path.dirname(os.path.dirname(module.__file__)) for module in (handoff, handoffd)}
    copy = served.home / "copy"
    for module in (handoff, handoffd):
        shutil.copytree(os.path.dirname(module.__file__), copy / module.__name__)
    before = f"import sys; sys.path[:] = [{str(copy)!r}, *set(sys.path) - {sites!r}]"
    with Relayed(served, before=before) as relay:
        relay.create()
        shutil.rmtree(copy)
        served.stop()
        for _ in range(2):
            asked = relay.request("tools/list")["error"]
            called = relay.request("tools/call", {"name": "add_to_handoff"})["error"]

            assert [wire.INTERNAL_ERROR] * 2 == [asked["code"], called["code"]]
            assert "Install it again" in asked["message"]
            assert "installed again" in called["message"]
            # No daemon received this call.
            assert "kept" not in called["message"]
        code, _ = relay.finish()

    assert 0 == code


# Places


def test_without_a_directory(home):
    """A relay works in a directory that was deleted, with a daemon and without."""
    gone = home.home / "gone"
    gone.mkdir()
    with Relayed(home, cwd=gone) as relay:
        gone.rmdir()
        assert 1 == len(relay.get(relay.create())["entries"])
    done = subprocess.run(
        ["sh", "-c", 'mkdir x && cd x && rmdir "$PWD" && exec "$0" mcp', str(BIN / "handoff")],
        input=lines(call(1, "create_handoff", title="t", content="c")), env=home.environment,
        cwd=home.home, capture_output=True, timeout=60, check=True,
    )  # fmt: skip

    assert False is json.loads(done.stdout)["result"]["isError"]


@pytest.mark.parametrize("running", [True, False])
def test_without_a_home(home, running):
    """A relay works without HOME, if other variables name the directories."""
    home.environment |= {
        "XDG_STATE_HOME": str(home.home / ".local/state"),
        "XDG_CONFIG_HOME": str(home.home / ".config"),
        "CLAUDE_CONFIG_DIR": str(home.home / ".claude"),
    }
    if running:
        home.start()
    with Relayed(home, env={"HOME": None}) as relay:
        assert 1 == len(relay.get(relay.create())["entries"])


def test_a_socket_that_was_left(home):
    """A socket without a server, also another user's, is no daemon: the relay starts one."""
    path = Path(home.socket_path)
    path.parent.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    if os.getuid() == 0:
        os.chown(path, 65534, 65534)
    with Relayed(home) as relay:
        assert 1 == len(relay.get(relay.create())["entries"])
        assert home.answers()


# Many


def test_ten_at_once(home):
    """Ten relays that start at once without a daemon start one, and all their calls are done."""
    with contextlib.ExitStack() as stack:
        relays = [stack.enter_context(Relayed(home, limits=PATIENT)) for _ in range(10)]
        for relay in relays:
            relay.send(frame("hello", "initialize"))
            relay.send(call("first", "create_handoff", title="t", content="c"))
        for relay in relays:
            assert "hello" == relay.receive()["id"]
        replies = [relay.receive() for relay in relays]
        errors = [relay.stderr for relay in relays]

    assert [False] * 10 == [reply["result"]["isError"] for reply in replies]
    assert [""] * 10 == errors
    assert 10 == len(contents(home))
    starts = (home.state / "handoffd.log").read_text().count('"started"')
    assert 1 == starts
