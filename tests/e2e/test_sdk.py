"""The client of MCP's own SDK over both transports, in both eras of the protocol."""

import asyncio
import re

import pytest
from mcp.shared.exceptions import MCPError

from handoff import __version__
from mcp_clients import ERAS, TOOLS, open_http, open_listener, relay, side


@pytest.fixture(scope="module", params=["stdio", "http"])
def listener(request, tmp_path_factory):
    """Both transports: the relay's standard input and output, and HTTP."""
    with open_listener(request.param, tmp_path_factory.mktemp("sdk")) as (_sandbox, found):
        yield found


@pytest.mark.parametrize("mode", ERAS)
def test_the_client_agrees_with_a_listener_on_the_protocol(listener, mode):
    """Version, name, instructions and the five tools are there, in each protocol."""

    async def play():
        async with side(listener, mode) as one:
            client = one.client
            listed = await client.list_tools()

            assert ERAS[mode] == client.protocol_version
            assert set(TOOLS) == {tool.name for tool in listed.tools}
            assert all(tool.output_schema and tool.annotations for tool in listed.tools)
            # A client that was told the protocol does not ask for the server's name.
            if mode != "2026-07-28":
                assert ("handoffd", __version__) == (
                    client.server_info.name,
                    client.server_info.version,
                )
                assert "There is no list or search" in client.instructions
            if mode == "legacy":
                await client.session.send_ping()

    asyncio.run(play())


@pytest.mark.parametrize("mode", ERAS)
def test_the_five_tools_and_their_errors(listener, mode):
    """Each tool works over either transport, and its errors are told to the model."""

    async def play():
        async with side(listener, mode) as one:
            made = await one.call("create_handoff", title="Auth", content="JWT.", project="shop")
            thread = made["handoff"]["id"]
            assert re.fullmatch("hof_[A-Za-z0-9_-]{21}", thread)
            assert ["chat"] == [entry["from_client"] for entry in made["entries"]]
            assert [] == await one.new(thread)
            assert ["JWT."] == await one.new(thread, as_client="code")

            added = await one.call(
                "add_to_handoff", id=thread, type="question", content="7d?", as_client="code"
            )
            assert "code" == added["entry"]["from_client"]
            assert ["7d?"] == await one.new(thread)
            marked = await one.call("mark_handoff_read", id=thread)
            assert {
                "marked_read": True, "client": "chat", "last_seen": added["entry"]["seq"],
            } == marked  # fmt: skip
            assert [] == await one.new(thread)

            assert "type" in await one.refused(
                "add_to_handoff", id=thread, type="gossip", content="x"
            )
            assert "hof_nobody" in await one.refused("get_handoff", id="hof_nobody")
            closed = await one.call("close_handoff", id=thread)
            assert {"closed": True, "id": thread, "title": "Auth"} == closed
            assert "completed" in await one.refused(
                "add_to_handoff", id=thread, type="done", content="x"
            )
            got = await one.call("get_handoff", id=thread)
            assert ("completed", []) == (got["handoff"]["status"], got["entries"])

    asyncio.run(play())


def test_what_is_not_there_is_an_error_at_once(listener):
    """A request for resources or prompts is an error, and the conversation goes on."""

    async def play():
        async with side(listener, "legacy") as one:
            for ask in (one.client.list_resources, one.client.list_prompts):
                with pytest.raises(MCPError, match=r"(?i)not found|no method|unknown"):
                    await ask()
            assert "no_such_tool" in await one.refused("no_such_tool")
            assert 5 == len((await one.client.list_tools()).tools)

    asyncio.run(play())


def test_two_clients_by_two_ways_share_a_thread(sandbox):
    """An entry written over HTTP is read over stdin and stdout, and the other way round."""
    http = open_http(sandbox)

    async def play():
        async with side(http) as chat, side(relay(sandbox, "--client", "code")) as code:
            made = await chat.call("create_handoff", title="Auth", content="JWT.")
            thread = made["handoff"]["id"]
            assert ["JWT."] == await code.new(thread)
            await code.call("add_to_handoff", id=thread, type="question", content="7d?")
            assert ["7d?"] == await chat.new(thread)

    asyncio.run(play())
