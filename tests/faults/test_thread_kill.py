"""The daemon is killed during many writes to one thread: acknowledged entries are there once.

They are also in order.
"""

import contextlib
import itertools
import random
import threading
import time

from conftest import wait_for
from mcp_socket_client import ask
from relay_client import PATIENT, Relayed, clear, kill_daemon

CLIENTS = 20
ENTRIES = 5000
KILLS_MIN = 5
# On a slow machine the last of them are added in peace, and on a very slow one not at all.
KILLING_SECONDS = 15.0
ADDING_SECONDS = 45.0


def test_five_thousand_entries(sandbox, capsys):
    """20 clients add 5,000 entries, or as many as there is time for; the daemon dies all along."""
    sandbox.transcripts.mkdir(parents=True)
    sandbox.state.mkdir(parents=True, mode=0o700)
    each = ENTRIES // CLIENTS
    acknowledged = [[] for _ in range(CLIENTS)]
    began = time.monotonic()
    with contextlib.ExitStack() as stack:
        stack.callback(clear, sandbox)
        relays = [stack.enter_context(Relayed(sandbox, limits=PATIENT)) for _ in range(CLIENTS)]
        thread = relays[0].create("the beginning")

        def add(number):
            for count in range(each):
                if time.monotonic() - began > ADDING_SECONDS:
                    break
                seq = relays[number].add(thread, f"{number}:{count}")
                acknowledged[number].append(seq)

        adding = [threading.Thread(target=add, args=[number]) for number in range(CLIENTS)]
        for one in adding:
            one.start()
        kills = _kill_while(sandbox, adding, lambda: sum(map(len, acknowledged)))
        added = sum(map(len, acknowledged))
        for one in adding:
            one.join()
        seconds = time.monotonic() - began
        got = relays[-1].get(thread)["entries"][1:]
    stored = ask(
        sandbox,
        "SELECT seq, content FROM handoff_entries WHERE handoff_id = ? ORDER BY seq",
        thread,
    )[1:]
    with capsys.disabled():
        print(f"\n{kills} kills while {added} of {len(stored)} entries came, {seconds:.1f} s")

    assert [(entry["seq"], entry["content"]) for entry in got] == stored
    assert sum(map(len, acknowledged)) == len(stored)
    assert ENTRIES == len(stored) or seconds > ADDING_SECONDS
    for number, seqs in enumerate(acknowledged):
        mine = [(seq, words) for seq, words in stored if words.startswith(f"{number}:")]
        assert [(seq, f"{number}:{count}") for count, seq in enumerate(seqs)] == mine
    assert all(one < other for one, other in itertools.pairwise(seq for seq, _ in stored))
    assert kills >= KILLS_MIN


def _kill_while(sandbox, adding, count):
    """Kill the daemon about every second, also those that relays start again; return the count."""
    chance = random.Random(7)
    deadline = time.monotonic() + KILLING_SECONDS
    kills = 0

    def done():
        return not any(one.is_alive() for one in adding)

    while not done() and (kills < KILLS_MIN or time.monotonic() < deadline):
        wait_for(lambda: done() or sandbox.answers())
        # A quick machine would be done before it had died often enough.
        end, enough = time.monotonic() + chance.uniform(0.2, 1.5), count() + ENTRIES // 10
        wait_for(lambda: done() or time.monotonic() > end or count() > enough)  # noqa: B023
        if not done():
            kills += kill_daemon(sandbox) > 0
    return kills
