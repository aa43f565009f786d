"""After many cycles descriptors, threads, children and memory are as before."""

import json
import os
import signal
import socket
import subprocess
from functools import partial

import pytest

from conftest import BIN, wait_for
from mcp_socket_client import Mcp
from proc import children, descriptors, memory_bytes, threads

# The memory that the C library and SQLite keep for reuse, and pages that are half in use.
GROWTH_MOST_BYTES = 2e6
DESCRIPTORS_MOST, THREADS_MOST = 2, 2
AT_ONCE = 8


def connections(sandbox, number):
    """Drop connections half-way: before, in and after a request, without reading the answer."""
    words = (b"", b'{"jsonrpc":"2.0","id"', b'{"jsonrpc":"2.0","id":1,"method":"status"}\n')
    for count in range(number):
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(sandbox.socket_path)
            connection.sendall(words[count % 3])


def watchers(sandbox, number):
    """Subscribe to every change, and hang up."""
    for _ in range(number):
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(sandbox.socket_path)
            connection.sendall(b'{"jsonrpc":"2.0","id":1,"method":"watch"}\n')
            connection.recv(64)


def hooks(sandbox, number):
    """Begin and end sessions that never say a word."""
    for count in range(number):
        event = "SessionEnd" if count % 2 else "SessionStart"
        said = {"hook_event_name": event, "session_id": f"s-{count // 2}", "source": "startup"}
        sandbox.call("hook", cwd=str(sandbox.place), hook=json.dumps(said))


def relays(sandbox, number):
    """Open MCP relays, and kill them."""
    for _ in range(0, number, AT_ONCE):
        opened = [
            subprocess.Popen(
                [str(BIN / "handoff"), "mcp"], env=sandbox.environment, cwd=sandbox.place,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            )
            for _ in range(AT_ONCE)
        ]  # fmt: skip
        for relay in opened:
            relay.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
            relay.stdin.flush()
            assert b"result" in relay.stdout.readline()
        for relay in opened:
            relay.kill()
            relay.communicate()


def sessions(sandbox, number):
    """Begin sessions, work, end, and let the client delete their transcripts."""
    known = sandbox.call("status")["transcripts"]
    made = [sandbox.session(sandbox.place) for _ in range(number)]
    for count, session in enumerate(made):
        session.prompt(f"Count the lines of cart {count} correctly")
        session.edit(f"{sandbox.place}/cart{count}.py")
    wait_for(lambda: sandbox.call("status")["transcripts"] >= known + number, 60)
    wait_for(sandbox.settled, 60)
    for session in made:
        said = {"hook_event_name": "SessionEnd", "session_id": session.id}
        sandbox.call("hook", cwd=str(sandbox.place), hook=json.dumps(said))
    for session in made:
        session.path.unlink()


def commits(sandbox, number):
    """Move HEAD, of which git is asked each time."""
    for count in range(number):
        sandbox.git(sandbox.place, "commit", "-q", "--allow-empty", "-m", f"Count {count}")
        said = {"hook_event_name": "SessionStart", "session_id": "s", "source": "startup"}
        sandbox.call("hook", cwd=str(sandbox.place), hook=json.dumps(said))


def conversations(sandbox, number):
    """Begin threads, add to them, and close them."""
    with Mcp(sandbox, "code", sandbox.place) as connection:
        for _ in range(number):
            thread = connection.create("word " * 200)
            connection.add(thread, "word " * 200)
            connection.close(thread)


def reloads(sandbox, number):
    for _ in range(number):
        os.kill(sandbox.process.pid, signal.SIGHUP)
        sandbox.call("status")


def pauses(sandbox, number):
    for _ in range(number):
        sandbox.call("pause", cwd=str(sandbox.place))
        sandbox.call("unpause", cwd=str(sandbox.place))


CYCLES = {
    connections: 1000, watchers: 300, hooks: 1000, relays: 200, sessions: 300, commits: 200,
    conversations: 100, reloads: 50, pauses: 50,
}  # fmt: skip


def weigh(sandbox):
    pid = sandbox.process.pid
    wait_for(lambda: not children(pid))
    return memory_bytes(pid)[0], descriptors(pid), threads(pid)


def returned(sandbox, before):
    """Return the growth since before, unless it is still too much."""
    most = (GROWTH_MOST_BYTES, DESCRIPTORS_MOST, THREADS_MOST)
    more = [now - then for now, then in zip(weigh(sandbox), before, strict=True)]
    return more if all(found <= bound for found, bound in zip(more, most, strict=True)) else None


@pytest.mark.parametrize("share", [0.1, pytest.param(1, marks=pytest.mark.long)])
def test_what_comes_and_goes(live, share, record_property):
    """Connections, hooks, relays, sessions, git, threads, reloads, pauses: none of them stays."""
    live.place = live.project()
    live.session(live.place).prompt("Count the lines of the cart correctly")
    wait_for(lambda: "Count the lines" in live.yaml(live.place))
    for cycle in CYCLES:  # modules that are loaded when first needed
        cycle(live, 20)
    told = []
    for cycle, most in CYCLES.items():
        before, number = weigh(live), max(int(most * share), AT_ONCE)
        cycle(live, number)
        # Free memory is given back every half minute.
        more = wait_for(partial(returned, live, before), 60, cycle.__name__)
        told.append(f"{number} {cycle.__name__} {more[0] / 1e3:+.0f}")
    record_property("figure", f"KB after {', '.join(told)}; descriptors and threads as before")
