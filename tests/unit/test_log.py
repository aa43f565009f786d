"""The log: every line is one JSON object without secrets, from any writer."""

import asyncio
import json
import os
import pty
import subprocess
import sys
import threading
from types import SimpleNamespace

import pytest
import structlog

from handoffd import app
from handoffd.api import server
from handoffd.runtime import log

TOKEN = "ghp_" + "b7Xq2LmZ9rTn4KdVw8YhPc3sJf6GaEu1oBiR"


def lines_of(code: str, tmp_path) -> list[dict]:
    """Run Python with our log in a file, assert an empty stderr, and return the log's lines."""
    path = tmp_path / "log"
    prelude = f"from handoffd.runtime import log\nlog.configure('info', {str(path)!r})\nTOKEN = {TOKEN!r}\n"
    done = subprocess.run(
        [sys.executable, "-P", "-c", prelude + code],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    text = path.read_text()
    assert "" == done.stderr
    assert TOKEN not in text
    return [json.loads(line) for line in text.splitlines()]


WAYS = {
    "crashed": "raise OSError(0, 'the key is ' + TOKEN)",
    "thread_failed": """
import threading
def work():
    raise OSError(0, TOKEN)
thread = threading.Thread(target=work)
thread.start()
thread.join()
""",
    "unraisable": """
class Broken:
    def __del__(self):
        raise OSError(0, TOKEN)
Broken()
""",
    "library_warned": """
import logging, warnings
warnings.warn('use another ' + TOKEN)
logging.getLogger('apscheduler.scheduler').warning('%s: skipped %s', 'a\\nb', TOKEN)
logging.getLogger('watchdog').warning('%d', 'no number')
""",
    "library_failed": """
import logging
try:
    int(TOKEN)
except ValueError:
    logging.getLogger('apscheduler.executors.default').exception('a job\\nfailed')
    logging.getLogger('mcp.server').exception('a thread said %s', TOKEN)
logging.getLogger('uvicorn.error').error(TOKEN)
""",
    "noted": """
class Value:
    def __repr__(self):
        return TOKEN
log.get().info('noted', one=TOKEN, many=[TOKEN, (TOKEN,)], deep={'key': {'more': TOKEN}}, odd=Value())
""",
}


@pytest.mark.parametrize("event", WAYS)
def test_whoever_writes_it_is_masked_json(event, tmp_path):
    """Each way in which Python and libraries write ends in a masked JSON line."""
    lines = lines_of(WAYS[event], tmp_path)

    assert {event} == {line["event"] for line in lines}
    # The texts of libraries that see a session's words are not logged.
    assert (event != "library_failed") == ("[redacted:" in str(lines))


def test_an_unexpected_error_keeps_its_traceback(tmp_path):
    """An unexpected error is logged with its frames, and the text of an unknown error is not."""
    code = "def outer():\n    raise ValueError('what a session said')\nouter()\n"
    (line,) = lines_of(code, tmp_path)

    assert "in outer" in line["traceback"]
    assert line["error"].startswith("ValueError at")
    assert "session" not in str(line)


def test_expected_endings_are_no_failures(tmp_path):
    """A job or thread that is ended, and a client that hangs up in asyncio, log no line."""
    code = """
import asyncio, logging, sys, threading
for problem in (asyncio.CancelledError(), BaseExceptionGroup('', [asyncio.CancelledError()])):
    try:
        raise problem
    except BaseException:
        logging.getLogger('apscheduler.executors.default').exception('Job raised an exception')
thread = threading.Thread(target=sys.exit)
thread.start()
thread.join()
for problem in (BrokenPipeError(), ConnectionResetError()):
    log.asyncio_failed({'message': 'x', 'exception': problem, 'transport': None})
log.get().info('alive')
"""

    assert ["alive"] == [line["event"] for line in lines_of(code, tmp_path)]


def test_connection_errors_of_our_own_code_are_logged(tmp_path):
    """A connection error of our own code, a task or a library is logged."""
    code = """
import logging
for problem in (BrokenPipeError(), ConnectionResetError(), ConnectionAbortedError()):
    log.failed('request_failed', problem)
    log.asyncio_failed({'message': 'x', 'exception': problem, 'task': None})
    logging.getLogger('apscheduler').error('x', exc_info=problem)
log.asyncio_failed({'message': 'x', 'exception': ValueError(), 'transport': None})
log.asyncio_failed({'message': 'x'})
"""
    events = [line["event"] for line in lines_of(code, tmp_path)]

    each = ["request_failed", "loop_trouble", "library_failed"]
    assert [*each * 3, "loop_trouble", "loop_trouble"] == events


def test_a_handler_that_loses_a_connection(monkeypatch):
    """The answer says "see `handoff logs`", and the failure is logged."""

    async def dispatch(*_given):
        raise ConnectionResetError

    monkeypatch.setattr(server, "dispatch", dispatch)
    with structlog.testing.capture_logs() as lines:
        request = b'{"jsonrpc":"2.0","id":1,"method":"status"}'
        frame, _ = asyncio.run(server.answer(None, request, None, None))

    assert "see `handoff logs`" in frame["error"]["message"]
    assert ["request_failed"] == [line["event"] for line in lines]


def test_a_loop_that_loses_a_connection():
    """A loop that fails with it stops the daemon, and the reason is logged."""

    async def broken():
        raise BrokenPipeError

    async def run() -> SimpleNamespace:
        parts = SimpleNamespace(failed=False, stop=asyncio.Event())
        app._guarded(broken(), SimpleNamespace(daemon=parts))
        await asyncio.wait_for(parts.stop.wait(), 30)
        return parts

    with structlog.testing.capture_logs() as lines:
        assert asyncio.run(run()).failed

    assert ["loop_failed"] == [line["event"] for line in lines]


def test_a_terminal_gets_json(tmp_path):
    """On a terminal, too, a value cannot move the cursor or change colours."""
    code = (
        "from handoffd.runtime import log\nlog.configure('info', None)\n"
        "log.get().info('noted', name='a\\x1b[31mb\\x9b\\n\\u202ec')"
    )
    master, terminal = pty.openpty()
    with open(master, "rb", buffering=0) as stream:
        subprocess.run([sys.executable, "-P", "-c", code], stderr=terminal, timeout=60, check=True)
        os.close(terminal)
        line = stream.read(4096).decode()

    assert "a\x1b[31mb\x9b\n\u202ec" == json.loads(line)["name"]
    assert line.strip().isprintable()


def test_threads_do_not_mix_lines(tmp_path):
    """Lines that many threads write during a rotation of the file are whole."""
    found = log.LogFile(str(tmp_path / "log"))
    line = json.dumps({"text": "x" * 2000}) + "\n"
    writers = [
        threading.Thread(target=lambda: [found.write(line) for _ in range(200)]) for _ in range(4)
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    kept = [*tmp_path.joinpath("log").open(), *tmp_path.joinpath("log.1").open()]

    assert 800 == len(kept)
    assert {line} == set(kept)
