"""Code is the real Claude Code, Chat is the SDK's client, and both work on one thread."""

import asyncio
import json
from pathlib import Path

import pytest

from conftest import BIN, REPOSITORY, DaemonSandbox
from e2e.claude import TOOL, Claude
from e2e.model import Model, Turn, errors, results, say, tools, use, words
from handoffd.api.mcp_initialize import INSTRUCTIONS
from mcp_clients import TOOLS, Address, Side, open_http, relay, side
from mcp_socket_client import ask

RELAY = [str(BIN / "handoff"), "mcp", "--client", "code"]
NAME = "handoffd"


def relay_words(*command: str) -> list[str]:
    """Return the arguments that add our relay to Claude Code."""
    return ["mcp", "add", "--scope", "user", NAME, "--", *command]


def http_words(name: str, url: str, header: str) -> list[str]:
    """Return the arguments that add our HTTP address."""
    return ["mcp", "add", "--scope", "user", "--transport", "http", name, url, "--header", header]


def add_relay(claude: Claude, *command: str) -> None:
    claude.does(*relay_words(*(command or RELAY)))


def add_http(claude: Claude, listener: Address, name: str = NAME) -> None:
    claude.does(*http_words(name, listener.url, listener.header))


def test_the_documents_have_these_words():
    """docs/mcp.md has the lines that are tried here."""
    text = (REPOSITORY / "docs/mcp.md").read_text()
    header = '"Authorization: Bearer $(handoff token show)"'
    over_http = http_words(NAME, "http://127.0.0.1:8377/mcp", header)

    assert f"\nclaude {' '.join(relay_words('handoff', *RELAY[1:]))}\n" in text
    assert f"\nclaude {' '.join(over_http)}\n" in text


def calls(tool: str, **given) -> Turn:
    return use(f"{TOOL}{tool}", **given)


def loading(claude: Claude) -> list[Turn]:
    """Return the model's first turns: the newer client lets it look for tools by their words."""
    return [use("ToolSearch", query="handoff")] if claude.version == "325" else []


def newest(model: Model) -> dict:
    """Return the last tool's result, as the model read it."""
    return json.loads(results(model.requests[-1])[-1])


@pytest.mark.both
def test_claude_code_connects(claude: Claude):
    """The documented line is accepted, and Claude Code says that it is connected."""
    add_relay(claude)

    assert f"{NAME}: {' '.join(RELAY)} - ✔ Connected" in claude.does("mcp", "list")
    got = claude.does("mcp", "get", NAME)
    assert "Scope: User config (available in all your projects)" in got
    assert "Status: ✔ Connected" in got


def test_claude_code_connects_over_http(sandbox: DaemonSandbox, model: Model, version: str):
    """The line for HTTP, with the token in a header, connects; another token does not."""
    listener = open_http(sandbox)
    claude = Claude(version, sandbox, model, sandbox.project())
    add_http(claude, listener)
    add_http(claude, Address(listener.url, "wrong"), "stranger")
    shown = claude.does("mcp", "list")

    assert f"{NAME}: {listener.url} (HTTP) - ✔ Connected" in shown
    assert f"stranger: {listener.url} (HTTP) - ✘ Failed to connect" in shown


def test_the_tools_and_the_instructions_reach_the_model(claude: Claude, model: Model):
    """The model is offered the five tools with their texts, and told their purpose."""
    add_relay(claude)
    model.will(say("Hello."))
    claude.asked("Hello", ENABLE_TOOL_SEARCH="false")
    (request,) = model.requests

    offered = tools(request)
    assert {f"{TOOL}{name}" for name in TOOLS} == {n for n in offered if n.startswith(TOOL)}
    assert ["id", "type", "content"] == offered[f"{TOOL}add_to_handoff"]["input_schema"]["required"]
    assert "Tell the user the id" in offered[f"{TOOL}create_handoff"]["description"]
    assert INSTRUCTIONS in words(request)


@pytest.mark.parametrize("version", ["325"], indirect=True)
def test_a_model_finds_the_tools_by_the_word_handoff(claude: Claude, model: Model):
    """A client that holds tools back names ours, and a search for the word loads all."""
    add_relay(claude)
    model.will(*loading(claude), say("Found."))
    claude.asked("Pick up the handoff")

    assert all(f"{TOOL}{name}" in words(model.requests[0]) for name in TOOLS)
    assert INSTRUCTIONS in words(model.requests[0])
    assert {f"{TOOL}{name}" for name in TOOLS} <= tools(model.requests[1]).keys()


async def play(chat: Side, claude: Claude, **as_code: str) -> str:
    """Play the seed's six steps, and return the thread's id."""
    model, loop = claude.model, asyncio.get_running_loop()

    # 1. Chat creates the handoff.
    made = await chat.call(
        "create_handoff", title="Implement auth system", content="JWT with refresh tokens."
    )
    thread = made["handoff"]["id"]

    # 2. Code picks it up, and 3. hits a question.
    question = {"type": "question", "content": "Should refresh tokens expire after 7d or 30d?"}
    model.will(
        *loading(claude),
        calls("get_handoff", id=thread, **as_code),
        calls("mark_handoff_read", id=thread, **as_code),
        calls("add_to_handoff", id=thread, **question, **as_code),
        say("I've added a question to the handoff. Check with Chat."),
    )
    told = await asyncio.to_thread(claude.asked, f"Pick up handoff {thread}")
    assert "I've added a question to the handoff. Check with Chat." == told
    got, marked, added = map(json.loads, results(model.requests[-1])[-3:])
    assert ["JWT with refresh tokens."] == [e["content"] for e in got["new_entries"]]
    assert ("code", made["entries"][0]["seq"]) == (marked["client"], marked["last_seen"])
    assert "code" == added["entry"]["from_client"]

    # 4. Chat reads the question, and decides.
    assert [question["content"]] == await chat.new(thread)
    decision = {"type": "decision", "content": "30 days. Also add a 'remember me' option."}
    await chat.call("add_to_handoff", id=thread, **decision)

    # 5. Code, in the same session, sees the decision and is done. Chat sees that at once.
    seen_by_chat: list[str] = []

    def look(_request: dict) -> dict:
        looking = asyncio.run_coroutine_threadsafe(chat.new(thread), loop)
        seen_by_chat.extend(looking.result(90))
        return say("Done: 30 days.")

    done = {"type": "done", "content": "Auth system implemented. PR #42 ready for review."}
    model.will(
        calls("get_handoff", id=thread, **as_code),
        calls("add_to_handoff", id=thread, **done, **as_code),
        look,
    )
    told = await asyncio.to_thread(claude.asked, "Check the handoff", "--continue")
    assert "Done: 30 days." == told
    got = json.loads(results(model.requests[-1])[-2])
    assert [decision["content"]] == [e["content"] for e in got["new_entries"]]
    assert [done["content"]] == seen_by_chat
    assert ["chat", "code", "chat", "code"] == [
        entry["from_client"] for entry in (await chat.call("get_handoff", id=thread))["entries"]
    ]

    # 6. Either closes it.
    closed = await chat.call("close_handoff", id=thread)
    assert {"closed": True, "id": thread, "title": "Implement auth system"} == closed
    return thread


@pytest.mark.both
def test_six_steps_by_the_relay(claude: Claude, live: DaemonSandbox):
    """In the seed's workflow Code never names itself, and its entries are tagged code."""
    add_relay(claude)

    async def together() -> str:
        async with side(relay(live)) as chat:
            return await play(chat, claude)

    thread = asyncio.run(together())
    for request in claude.model.requests:
        assert [] == errors(request)
    assert [("completed",)] == ask(live, "select status from handoffs where id = ?", thread)
    assert [(0,)] == ask(live, "select count(*) from handoff_entries")


def test_six_steps_over_http(sandbox: DaemonSandbox, model: Model, version: str):
    """The same holds with Chat and Code both over HTTP, where Code names itself."""
    listener = open_http(sandbox)
    claude = Claude(version, sandbox, model, sandbox.project())
    add_http(claude, listener)

    async def together() -> None:
        async with side(listener) as chat:
            await play(chat, claude, as_client="code")

    asyncio.run(together())


@pytest.mark.parametrize("back", [True, False], ids=["restarted", "gone"])
def test_the_daemon_may_die_between_two_calls(
    claude: Claude, model: Model, live: DaemonSandbox, back
):
    """One run of Claude Code survives the daemon's death: a restart, or a start by the relay."""
    # Claude Code would restart a relay that ends, and so hide its end.
    counting = live.home / "counting"
    counting.write_text(f'#!/bin/sh\necho once >>"{counting}.log"\nexec "$@"\n')
    counting.chmod(0o755)
    add_relay(claude, str(counting), *RELAY)
    thread: list[str] = []

    def after_the_kill(_request: dict) -> Turn:
        thread.append(newest(model)["handoff"]["id"])
        live.kill()
        if back:
            live.start()
        return calls("add_to_handoff", id=thread[0], type="progress", content="Half way.")

    def looking(_request: dict) -> Turn:
        return calls("get_handoff", id=thread[0])

    model.will(
        *loading(claude),
        calls("create_handoff", title="Auth", content="JWT."),
        after_the_kill, looking, say("Done."),
    )  # fmt: skip
    try:
        assert "Done." == claude.asked("Hand this off")
    finally:
        live.handoff("down")
    entries = newest(model)["entries"]

    assert [] == errors(model.requests[-1])
    assert ["JWT.", "Half way."] == [entry["content"] for entry in entries]
    assert ["code", "code"] == [entry["from_client"] for entry in entries]
    assert "once\n" == Path(f"{counting}.log").read_text()
