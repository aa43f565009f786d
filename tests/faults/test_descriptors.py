"""Few file descriptors: fewer clients are served, silent ones are closed, and the work goes on."""

import json
import resource
import socket
import time

from conftest import wait_for
from handoff.common.wire import BUSY
from handoffd.api.server import DESCRIPTORS_KEPT
from proc import cpu_seconds, descriptors

LIMIT, CLIENTS, RELAYS = 64, 100, 20
BUSY_SECONDS = 3.0


def asking(sandbox, method="status"):
    """Send a request, without waiting for the answer."""
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(30)
    connection.connect(sandbox.socket_path)
    frame = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {}}
    connection.sendall(json.dumps(frame).encode() + b"\n")
    return connection


def answered(connection):
    with connection.makefile("rb") as stream:
        return json.loads(stream.readline())


def limited():
    resource.setrlimit(resource.RLIMIT_NOFILE, (LIMIT, LIMIT))


def test_sixty_four_descriptors(sandbox, record_property):
    """20 relays and 100 more clients are answered or told to retry; silent ones are closed.

    The work goes on meanwhile, without spinning, and when they are gone all is as before.
    """
    sandbox.transcripts.mkdir(parents=True)
    sandbox.process = sandbox.spawn(preexec_fn=limited)
    wait_for(lambda: sandbox.alive() and sandbox.answers())
    pid = sandbox.process.pid
    project = sandbox.project()
    session = sandbox.session(project)
    session.prompt("Count the lines of the cart correctly")
    wait_for(lambda: "Count the lines" in sandbox.yaml(project))
    assert ["few_descriptors"] == [
        w["code"] for w in sandbox.request("status")["result"]["warnings"]
    ]

    relays = [asking(sandbox, "ping") for _ in range(RELAYS)]
    assert all(answered(relay).get("id") == 1 for relay in relays)
    crowd = [asking(sandbox) for _ in range(CLIENTS)]
    replies = [answered(client) for client in crowd]
    served = [reply for reply in replies if "result" in reply]
    told = [reply for reply in replies if reply.get("error", {}).get("code") == BUSY]
    assert CLIENTS == len(served) + len(told)
    assert len(served) >= LIMIT - DESCRIPTORS_KEPT
    assert descriptors(pid) <= LIMIT

    busy, logged = cpu_seconds(pid), sandbox.log.stat().st_size
    session.say("The second step is done.")
    time.sleep(BUSY_SECONDS)
    busy = (cpu_seconds(pid) - busy) / BUSY_SECONDS
    grown = sandbox.log.stat().st_size - logged
    assert busy < 0.3
    assert grown < 10_000

    for connection in (*relays, *crowd):
        connection.close()
    wait_for(sandbox.answers)
    wait_for(lambda: "second step" in str(sandbox.show(project)))
    wait_for(lambda: descriptors(pid) < LIMIT / 2)
    figure = f"{RELAYS} relays and {len(served)} clients answered, {len(told)} told to come back"
    record_property("figure", f"{figure}; processor {busy:.1%}, log {grown} bytes meanwhile")
