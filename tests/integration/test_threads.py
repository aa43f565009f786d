"""`handoff thread`: with a daemon, and by the same code straight from core.db without one."""

import json
import os
import re
import shlex
import signal
import sqlite3
import subprocess
import sys
import threading
from typing import get_args

import pytest

from conductor_projects import at_terminal
from conftest import BIN, wait_for
from handoff.commands import thread as command
from handoffd.api import tools
from mcp_socket_client import Mcp, ask, configure, files_with, serving

ID = r"hof_[A-Za-z0-9_-]{21}"
TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
UNKNOWN = "hof_AAAAAAAAAAAAAAAAAAAAA"


def thread(sandbox, *words, code=0, **run):
    done = sandbox.handoff("thread", *words, **run)
    assert code == done.returncode, done.stdout + done.stderr
    return done


def begun(sandbox, *words, content="JWT with refresh tokens") -> str:
    """Create a thread; returns its id."""
    return thread(sandbox, "create", "Implement login", content, *words).stdout.splitlines()[0]


def asked(sandbox, *words, **run) -> dict:
    return json.loads(thread(sandbox, *words, "--json", **run).stdout)


def contents(entries) -> list[str]:
    return [entry["content"] for entry in entries]


class Watch:
    """A `handoff thread get --watch` beside the test."""

    def __init__(self, sandbox, *words):
        self.out, self.err = sandbox.home / "watch.out", sandbox.home / "watch.err"
        with self.out.open("wb") as out, self.err.open("wb") as err:
            self.process = subprocess.Popen(
                [str(BIN / "handoff"), "thread", "get", *words, "--watch"],
                env=sandbox.environment, cwd=sandbox.home, stdout=out, stderr=err,
                stdin=subprocess.DEVNULL,
            )  # fmt: skip
        wait_for(lambda: "Watching. Ctrl-C ends it." in self.remarks, what="it watches")

    @property
    def text(self) -> str:
        return self.out.read_text()

    @property
    def remarks(self) -> str:
        return self.err.read_text()

    @property
    def numbers(self) -> list[int]:
        return [int(number) for number in re.findall(r"(?m)^(\d+) · ", self.text)]

    def ended(self) -> int:
        return self.process.wait(90)


@pytest.fixture(scope="module", params=["daemon", "alone"])
def one_world(request, tmp_path_factory):
    """The two worlds, each one for all tests that look at nothing but their own threads."""
    with serving(tmp_path_factory.mktemp("threads"), start=request.param == "daemon") as sandbox:
        yield sandbox


@pytest.fixture
def watch(live):
    """Start watches that do not outlive the test."""
    running = []

    def start(*words) -> Watch:
        running.append(Watch(live, *words))
        return running[-1]

    yield start
    for found in running:
        found.process.kill()
        found.process.wait()


# The five actions


@pytest.mark.quick
def test_six_steps(one_world):
    """Chat creates, Code reads and asks, Chat decides, Code is done, and either closes it."""
    plan = "We decided on JWT. Requirements: ..."
    shared = begun(one_world, content=plan)
    code = ("--as", "code")
    assert [plan] == contents(asked(one_world, "get", shared, *code)["new_entries"])
    thread(one_world, "read", shared, *code)
    assert 0 == asked(one_world, "get", shared, *code)["new_count"]
    question = "Should refresh tokens expire after 7d or 30d?"
    thread(one_world, "add", shared, "question", question, *code)
    assert [question] == contents(asked(one_world, "get", shared)["new_entries"])
    decision = "30 days. Also add a 'remember me' option."
    thread(one_world, "add", shared, "decision", decision)
    assert [decision] == contents(asked(one_world, "get", shared, *code)["new_entries"])
    thread(one_world, "add", shared, "done", "PR #42 is ready for review.", *code)
    said = [(e["from_client"], e["type"]) for e in asked(one_world, "get", shared)["entries"]]
    assert [
        ("chat", "context"), ("code", "question"), ("chat", "decision"), ("code", "done"),
    ] == said  # fmt: skip
    thread(one_world, "close", shared, "--yes")
    got = asked(one_world, "get", shared)

    assert ("completed", [], 0) == (got["handoff"]["status"], got["entries"], got["new_count"])


@pytest.mark.parametrize(("side", "other"), [("chat", "Claude Code"), ("code", "Claude Chat")])
def test_create_prints_the_id_alone(one_world, side, other):
    """The id alone is on stdout; the hint where to paste it is on stderr."""
    done = thread(one_world, "create", "Title", "Words", "--as", side, "--project", "dnd")
    first = done.stdout.rstrip("\n")

    assert re.fullmatch(ID, first)
    hint = f'Paste this id into {other}, as in "Pick up handoff {first}".'
    assert hint == done.stderr.splitlines()[0]
    assert "dnd" == asked(one_world, "get", first)["handoff"]["project"]
    alone = one_world.process is None
    assert alone == ("handoffd is not running. Done without it." in done.stderr)


def test_json_is_the_result_of_the_tool(one_world):
    """With --json each action prints the result of its tool, and nothing else."""
    made = asked(one_world, "create", "Title", "Words", "--project", "x")
    shared = made["handoff"]["id"]
    got = asked(one_world, "get", shared, "--new", "--as", "code")
    added = asked(one_world, "add", shared, "task", "More")
    read = asked(one_world, "read", shared, "--as", "code", "--up-to", str(added["entry"]["seq"]))
    closed = asked(one_world, "close", shared, "--yes")

    assert ["handoff", "entries"] == list(made)
    assert ["handoff", "entries", "new_entries", "new_count"] == list(got)
    assert ["handoff", "entry"] == list(added)
    assert {"marked_read": True, "client": "code", "last_seen": added["entry"]["seq"]} == read
    assert {"closed": True, "id": shared, "title": "Title"} == closed


@pytest.mark.quick
def test_json_is_what_mcp_answers(live):
    """The command and the tool return the same result of the same thread."""
    shared = begun(live)
    with Mcp(live) as mcp:
        assert mcp.get(shared) == asked(live, "get", shared)
        assert mcp.get(shared, as_client="code") == asked(live, "get", shared, "--as", "code")


def test_get_shows_a_thread(one_world):
    """A person sees title, state, the author and time of each entry, and the unread entries."""
    shared = begun(one_world, "--project", "dnd")
    thread(one_world, "add", shared, "question", "7 days?\n\n30 days?", "--as", "code")
    lines = thread(one_world, "get", shared).stdout.splitlines()
    first, second = (entry["seq"] for entry in asked(one_world, "get", shared)["entries"])
    when = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"

    assert "Implement login" == lines[0]
    assert f"{shared} · active · project dnd · 2 entries, 1 unread by chat" == lines[1]
    assert re.fullmatch(rf"{first} · chat · context · {when}", lines[3])
    assert "    JWT with refresh tokens" == lines[4]
    assert re.fullmatch(rf"{second} · code · question · {when} · unread", lines[6])
    assert ["    7 days?", "", "    30 days?"] == lines[7:10]
    mark = f"handoff thread read {shared} --up-to {second}"
    assert ["", f"When you have acted on them: {mark}"] == lines[10:]


def test_get_new(one_world):
    """--new shows only unread entries, or that there are none; looking marks nothing."""
    shared = begun(one_world)
    for _ in range(2):
        assert "JWT" in thread(one_world, "get", shared, "--new", "--as", "code").stdout
    nothing = thread(one_world, "get", shared, "--new").stdout
    thread(one_world, "read", shared, "--as", "code")

    assert "JWT" not in nothing
    assert nothing.endswith("\nNothing new.\n")
    assert "Nothing new." in thread(one_world, "get", shared, "--new", "--as", "code").stdout


def test_read_up_to(one_world):
    """`read --up-to` leaves later entries unread, and the cursor never goes back."""
    shared = begun(one_world)
    later = asked(one_world, "add", shared, "task", "Later")["entry"]["seq"]
    code = ("--as", "code")
    done = thread(one_world, "read", shared, "--up-to", str(later - 1), *code)

    assert f"Read up to {later - 1}, as code.\n" == done.stdout
    assert ["Later"] == contents(asked(one_world, "get", shared, *code)["new_entries"])
    assert later == asked(one_world, "read", shared, *code)["last_seen"]
    assert later == asked(one_world, "read", shared, "--up-to", "1", *code)["last_seen"]


def test_unread_stays_unread_when_you_write(one_world):
    """An author who writes before reading is told of unread entries, and does not lose them."""
    shared = begun(one_world)
    done = thread(one_world, "add", shared, "progress", "Begun", "--as", "code")

    assert f"handoff thread get {shared} --as code --new" in done.stdout
    assert 1 == asked(one_world, "get", shared, "--as", "code")["new_count"]
    thread(one_world, "read", shared, "--as", "code")
    done = thread(one_world, "add", shared, "progress", "Going on", "--as", "code")
    assert re.fullmatch(rf"Added \d+ to {shared}, as progress from code.\n", done.stdout)


def test_a_question_before_closing_shows_nothing(one_world):
    """Closing that was not agreed to has shown no entry: the next write marks none read."""
    shared = begun(one_world)
    thread(one_world, "add", shared, "question", "Which one?", "--as", "code")
    thread(one_world, "close", shared, code=4)
    thread(one_world, "add", shared, "progress", "Unseen")

    assert ["Which one?"] == contents(asked(one_world, "get", shared)["new_entries"])


def test_as_whom(one_world):
    """The side is chat, or code inside Claude Code; --as wins over both."""
    inside = {"CLAUDECODE": "1"}
    shared = begun(one_world)
    thread(one_world, "add", shared, "task", "1", env=inside)
    thread(one_world, "add", shared, "task", "2", "--as", "chat", env=inside)
    thread(one_world, "add", shared, "task", "3", "--as", "code")
    entries = asked(one_world, "get", shared)["entries"]

    assert ["chat", "code", "chat", "code"] == [entry["from_client"] for entry in entries]


def test_content_from_stdin(one_world):
    """The content comes unchanged from stdin for `-`, or if none is given."""
    text = 'Zeile 1\n\t"ü" — 🦊\n'
    shared = thread(one_world, "create", "Title", input=text).stdout.splitlines()[0]
    thread(one_world, "add", shared, "task", "-", input="--dashed\r\nend")

    assert [text, "--dashed\nend"] == contents(asked(one_world, "get", shared)["entries"])


def test_content_of_the_greatest_size(one_world):
    """256 KiB of any characters are accepted; one byte more is refused with the limit."""
    most = "ü" * (128 << 10)
    shared = thread(one_world, "create", "Title", input=most).stdout.splitlines()[0]
    done = thread(one_world, "create", "Title", input=f"{most}.", code=1)

    assert [most] == contents(asked(one_world, "get", shared)["entries"])
    assert "An entry may have 256 KiB" in done.stderr
    assert "several entries" in done.stderr


@pytest.mark.parametrize(
    "words", [("create", "Title"), ("add", UNKNOWN, "task"), ("create", "T", "-")]
)
def test_no_content_is_a_usage_error(sandbox, words):
    """An empty or blank stdin is exit code 2 with a remedy, before any request."""
    for given in ("", " \n"):
        done = thread(sandbox, *words, code=2, input=given)
        assert "There is no content.\nGive it as an argument, or on stdin." in done.stderr
    assert not sandbox.state.exists()


def test_a_silent_pipe_is_given_up(sandbox):
    """A pipe without a writer is not waited for, unless `-` says so."""
    reading, writing = os.pipe()
    code = (
        "import sys; from handoff import cli; from handoff.commands import thread; "
        "thread._STDIN_SECONDS = 0.1; sys.exit(cli.main('handoff', ['thread', 'create', 'T']))"
    )
    try:
        done = subprocess.run(
            [sys.executable, "-c", code], env=sandbox.environment, stdin=reading, text=True,
            capture_output=True, check=False, timeout=90,
        )  # fmt: skip
    finally:
        os.close(reading)
        os.close(writing)

    assert 2 == done.returncode
    assert "Nothing came on stdin for 0.1 s." in done.stderr


@pytest.mark.parametrize(
    "words", [("get",), ("add", "task", "x"), ("read",), ("close", "--yes"), ("close",)]
)
def test_unknown_id(one_world, words):
    """An unknown id is exit code 1, with a remedy."""
    done = thread(one_world, words[0], UNKNOWN, *words[1:], code=1)

    assert f"handoff: Handoff '{UNKNOWN}' not found.\n" in done.stderr
    assert "Paste the whole id" in done.stderr
    assert "" == done.stdout


def test_errors_have_a_remedy(one_world):
    """A failed action gives its reason and a remedy; a wrong word is exit code 2."""
    shared = begun(one_world)
    long = thread(one_world, "create", "x" * 501, "Words", code=1)
    blank = thread(one_world, "create", " ", "Words", code=1)
    kind = thread(one_world, "add", shared, "novel", "Words", code=2)
    side = thread(one_world, "get", shared, "--as", "nobody", code=2)
    none = thread(one_world, code=2)
    thread(one_world, "close", shared, "--yes")
    completed = thread(one_world, "add", shared, "task", "Words", code=1)

    assert "A title may have 500 characters; this one has 501.\nPut the rest" in long.stderr
    assert "A handoff needs a title.\n" in blank.stderr
    assert "'novel' is none: context, task, progress," in kind.stderr
    assert "invalid choice: 'nobody'" in side.stderr
    assert "usage: handoff thread" in none.stderr
    assert f"Handoff '{shared}' is already completed.\nCreate another one" in completed.stderr


def test_an_id_as_it_is_pasted(one_world):
    """An id works with the quotes and the full stop that were pasted, also to read as code."""
    shared = begun(one_world)
    for words in (("get",), ("read",)):
        thread(one_world, words[0], f"`{shared}`.", "--as", "code")

    assert 0 == asked(one_world, "get", f" <{shared}> ", "--as", "code")["new_count"]


def test_what_only_a_terminal_obeys_is_not_printed(world):
    """Control characters are not kept; those that another program stored are not shown."""
    shared = begun(world, content="red \x1b[31m\x9b text")
    path = world.state / "core.db"
    with sqlite3.connect(path) as db:
        db.execute("UPDATE handoffs SET title = 'a' || char(27, 10, 155) || 'b'")
        db.execute("UPDATE handoff_entries SET type = 'x' || char(27)")
        db.execute("UPDATE handoff_entries SET content = content || char(10, 27) || '[2J'")
    text = thread(world, "get", shared).stdout

    assert [] == re.findall(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", text)
    assert text.startswith("a\\x1b\\n\\x9bb\n")
    assert "\n    red [31m text\n    \\x1b[2J\n" in text


def test_secrets_are_warned_about(world):
    """A secret is kept as it is, with a warning; with `refuse_secrets` it is refused."""
    warned = thread(world, "create", "Title", f"The token is {TOKEN}")
    shared = warned.stdout.splitlines()[0]
    assert "\nwarning: This may hold a secret (" in warned.stderr
    assert [f"The token is {TOKEN}"] == contents(asked(world, "get", shared)["entries"])
    assert 1 == len(asked(world, "add", shared, "task", TOKEN)["warnings"])

    configure(world, "[threads]\nrefuse_secrets = true\n")
    if world.process is not None:
        world.restart()
    refused = thread(world, "add", shared, "task", TOKEN, code=1)
    assert "It was not kept.\nTake it out" in refused.stderr
    assert 2 == len(asked(world, "get", shared)["entries"])


def test_a_repeated_call_is_done_once(live):
    """A repeated call with the same key, also without the daemon, adds no second entry."""
    shared = begun(live)
    params = {
        "action": "add", "id": shared, "type": "task", "content": "Once", "cwd": "/", "once": "k1",
    }  # fmt: skip
    first = live.call("thread", **params)["result"]["entry"]
    assert first == live.call("thread", **params)["result"]["entry"]
    live.kill()
    code = (
        "import json, sys; from handoffd.offline import runner; style = {'columns': 80, 'json': False}; "
        "print(json.dumps(runner.run('thread', json.loads(sys.argv[1]), style)[0]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, json.dumps(params)], env=live.environment, text=True,
        capture_output=True, check=True,
    )  # fmt: skip

    assert first == json.loads(done.stdout)["result"]["entry"]
    assert 2 == len(asked(live, "get", shared)["entries"])


@pytest.mark.quick
def test_both_worlds_are_one(live):
    """Entries made with a daemon are there without one, and the other way round."""
    shared = begun(live)
    live.kill()
    thread(live, "add", shared, "question", "In the dark", "--as", "code")
    live.start()

    assert ["In the dark"] == contents(asked(live, "get", shared)["new_entries"])


def test_client_knows_what_the_daemon_knows():
    """The command offers exactly the daemon's types and sides."""
    assert get_args(tools.Kind) == command.TYPES
    assert get_args(tools.Client) == command.CLIENTS


def test_what_is_no_utf8(one_world):
    """Bytes that are no text are replaced, as the tools do it, and the rest is kept."""
    made = asked(one_world, "create", b"th\xe9", b"caf\xe9", "--project", b"\xff!")
    shared = made["handoff"]["id"]
    thread(one_world, "add", shared, "task", b"\xe9t\xe9")
    wrong = thread(one_world, "get", b"hof_\xe9", code=1)

    assert ["th\ufffd", "\ufffd!"] == [made["handoff"][name] for name in ("title", "project")]
    assert ["caf\ufffd", "\ufffdt\ufffd"] == contents(asked(one_world, "get", shared)["entries"])
    assert "Handoff 'hof_\ufffd' not found." in wrong.stderr


def test_a_wrong_call_repeats_no_words(world):
    """An invalid call gets one sentence that does not repeat its content, and exit code 2."""
    lost = world.home / os.fsdecode(b"caf\xe9")
    lost.mkdir()
    done = thread(world, "create", "Title", "Secret plans", code=2, cwd=lost)

    assert "handoff: thread: cwd: the name is not UTF-8\n" == done.stderr


def test_a_broken_configuration(sandbox):
    """Without a daemon all but closing goes on, and possibly unwanted actions are not done."""
    project = sandbox.project()
    shared = begun(sandbox)
    configure(sandbox, "[threads\n")
    thread(sandbox, "add", shared, "question", "Which?", "--as", "code", cwd=project)
    refused = thread(sandbox, "add", shared, "task", TOKEN, code=1)
    thread(sandbox, "read", shared)
    closed = thread(sandbox, "close", shared, "--yes", code=1)

    assert ["Which?"] == contents(asked(sandbox, "get", shared)["entries"][1:])
    assert 0 == asked(sandbox, "get", shared)["new_count"]
    assert "It was not kept." in refused.stderr
    assert "It stays open, as a copy may be wanted.\n" in closed.stderr
    assert "config.toml" in closed.stderr
    assert [] == ask(sandbox, "SELECT * FROM thread_uses")


# Closing


@pytest.mark.quick
def test_close_wipes(world):
    """Closing leaves no byte of the entries in any file of ours; the row stays."""
    shared = begun(world, content="zanzibar-quixotic")
    thread(world, "add", shared, "task", "zanzibar-quixotic", "--as", "code")
    done = thread(world, "close", shared, "--yes")

    assert f"Closed {shared} (Implement login). Its entries are deleted for good.\n" == done.stdout
    assert [] == files_with(world.state, b"zanzibar-quixotic")
    lines = thread(world, "get", shared).stdout.splitlines()
    assert ["Implement login", f"{shared} · completed · its entries are deleted"] == lines
    thread(world, "close", shared)


def test_close_keeps_a_copy_where_that_is_wanted(world):
    """With `archive_on_close` a masked copy is kept that only the user can read."""
    configure(world, "[threads]\narchive_on_close = true\n")
    if world.process is not None:
        world.restart()
    shared = begun(world, content=f"Use {TOKEN} for it")
    thread(world, "close", shared, "--yes")
    copy = world.state / f"archive/{shared}.md"

    assert 0o600 == copy.stat().st_mode & 0o777
    assert "# Implement login\n" in copy.read_text()
    assert "for it" in copy.read_text()
    assert TOKEN not in copy.read_text()


def test_close_needs_a_yes_where_nobody_can_be_asked(world):
    """Without a terminal, or with --json, nothing is deleted: exit code 4 names the command."""
    shared = begun(world)
    for words in ((), ("--json",)):
        done = thread(world, "close", shared, *words, code=4)
        assert "" == done.stdout
        assert f"handoff thread close {shared} --yes\n" in done.stderr

    assert 1 == len(asked(world, "get", shared)["entries"])


@pytest.mark.parametrize(("answer", "left"), [("y", 0), ("n", 1), ("", 1)])
def test_close_asks_at_a_terminal(world, answer, left):
    """A person is told the amount and asked; every answer but yes keeps the thread."""
    shared = begun(world)
    question = "Delete the entries of 'Implement login' (1) for good? [y/N] "
    code, screen = at_terminal(
        world, "thread", "close", shared, cwd=world.home, answers=[(question, answer)]
    )

    assert 0 == code, screen
    assert ("Nothing was deleted." in screen) == bool(left)
    assert left == len(asked(world, "get", shared)["entries"])


def test_close_at_a_terminal_that_ends(world):
    """Ctrl-D is no yes: nothing is deleted, and there is no traceback."""
    shared = begun(world)
    code, screen = at_terminal(
        world, "thread", "close", shared, cwd=world.home, answers=[("[y/N] ", "\x04")]
    )

    assert 0 == code, screen
    assert screen.endswith("\nNothing was deleted.\n")
    assert 1 == len(asked(world, "get", shared)["entries"])


# Watching


@pytest.mark.quick
def test_watch_follows_until_it_is_closed(live, watch):
    """`watch` prints the existing entries, then each new one of any client, until it is closed.

    Closing the thread ends it with exit code 0.
    """
    shared = begun(live)
    seen = watch(shared)
    assert "Implement login" == seen.text.splitlines()[0]
    thread(live, "add", shared, "question", "By the command", "--as", "code")
    wait_for(lambda: "    By the command\n" in seen.text)
    with Mcp(live, "code") as mcp:
        mcp.add(shared, "By a relay")
    wait_for(lambda: "    By a relay\n" in seen.text)
    begun(live, content="Of another thread")
    thread(live, "read", shared)
    thread(live, "close", shared, "--yes")

    assert 0 == seen.ended()
    assert [1, 2, 3] == seen.numbers
    assert "Of another thread" not in seen.text
    assert "It was closed, and its entries were deleted.\n" in seen.remarks
    assert 1 == seen.text.count("Implement login")


def test_watch_survives_a_restart(live, watch):
    """Killed and started anew, the daemon is found again; nothing is lost or printed twice."""
    shared = begun(live)
    seen = watch(shared)
    thread(live, "add", shared, "task", "Before")
    wait_for(lambda: "Before" in seen.text)
    live.kill()
    wait_for(lambda: "handoffd has ended; waiting for it." in seen.remarks)
    thread(live, "add", shared, "task", "While it was down")
    live.start()
    wait_for(lambda: "While it was down" in seen.text)
    live.restart()
    thread(live, "add", shared, "task", "After")
    wait_for(lambda: "After" in seen.text)
    live.kill()
    thread(live, "close", shared, "--yes")
    live.start()

    assert 0 == seen.ended()
    assert [1, 2, 3, 4] == seen.numbers


def test_watch_misses_nothing(live, watch):
    """With many writers at once every entry is printed once, in order."""
    shared = begun(live)
    seen = watch(shared)

    def say(side):
        with Mcp(live, side) as mcp:
            for number in range(100):
                mcp.add(shared, f"{side} {number}")

    writers = [threading.Thread(target=say, args=(side,)) for side in ("chat", "code") * 2]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    wait_for(lambda: len(seen.numbers) >= 401)

    assert list(range(1, 402)) == seen.numbers


def test_watch_new_as_json(live, watch):
    """With --json the tool's result is one line, and each entry that follows is another."""
    shared = begun(live)
    seen = watch(shared, "--json", "--new", "--as", "code")
    thread(live, "add", shared, "task", "Next")
    lines = wait_for(lambda: len(found := seen.text.splitlines()) > 1 and found)

    assert 1 == json.loads(lines[0])["new_count"]
    assert ["Next"] == contents([json.loads(lines[1])])


def test_watch_new_begins_with_the_unread(live, watch):
    """With --new entries read before are not printed, and new ones of any author are."""
    shared = begun(live, content="Old words")
    seen = watch(shared, "--new")
    for side in ("chat", "code"):
        thread(live, "add", shared, "task", f"New of {side}", "--as", side)
    wait_for(lambda: "New of code" in seen.text)

    assert "Old words" not in seen.text
    assert [2, 3] == seen.numbers


def test_watch_ends(live, watch):
    """Ctrl-C ends it with 130; a closed thread is shown, and the command ends."""
    shared = begun(live)
    seen = watch(shared)
    seen.process.send_signal(signal.SIGINT)
    assert 130 == seen.ended()
    assert "Traceback" not in seen.remarks

    thread(live, "close", shared, "--yes")
    assert "completed" in thread(live, "get", shared, "--watch").stdout
    assert "not found" in thread(live, "get", UNKNOWN, "--watch", code=1).stderr


def test_watch_needs_a_daemon(sandbox):
    """Without a daemon a watch is exit code 3."""
    done = thread(sandbox, "get", UNKNOWN, "--watch", code=3)

    assert "handoff up" in done.stderr


def test_watch_of_projects_hears_no_thread(live):
    """`handoff watch` reports projects only, as before."""
    project = live.project()
    path = live.home / "projects.out"
    with path.open("wb") as out:
        process = subprocess.Popen(
            [str(BIN / "handoff"), "watch"], env=live.environment, cwd=live.home, stdout=out,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
    try:
        wait_for(lambda: "Watching every project" in path.read_text())
        shared = begun(live, content="Secret plans")
        thread(live, "get", shared, "--as", "code", cwd=project)
        live.session(project).prompt("Add a discount code field")
        wait_for(lambda: "Add a discount code field" in path.read_text())
    finally:
        process.kill()
        process.wait()

    assert "Secret plans" not in path.read_text()
    assert "not stated" not in path.read_text()


def test_status_counts_threads(live):
    """`status` has the number of active threads, and of those with unread entries per side."""
    assert "threads" not in thread_row(live)
    read, unread = begun(live), begun(live)
    thread(live, "read", read, "--as", "code")
    thread(live, "add", read, "question", "Which?", "--as", "code")
    thread(live, "close", begun(live), "--yes")

    counts = {"active": 2, "unread_by_chat": 1, "unread_by_code": 1}
    assert counts == live.call("status")["threads"]
    assert "2 active; with unread entries: 1 for chat and 1 for code" in thread_row(live)
    assert unread not in live.handoff("status").stdout
    assert [(2,)] == ask(live, "SELECT count(*) FROM handoffs WHERE status = 'active'")


def thread_row(sandbox) -> str:
    lines = sandbox.handoff("status").stdout.splitlines()
    return next((line for line in lines if line.startswith("threads")), "")


@pytest.mark.parametrize("words", [["half way"], ["progres", "half way"]])
def test_a_type_that_was_left_out(sandbox, words):
    """Without a TYPE, or with a mistyped one, the types and the right command are named."""
    thread = sandbox.handoff("thread", "create", "t", "first").stdout.strip()
    refused = sandbox.handoff("thread", "add", thread, *words)

    assert (2, "") == (refused.returncode, refused.stdout)
    assert "context, task, progress, question, decision, done" in refused.stderr
    command = refused.stderr.rpartition("Example: handoff ")[2]
    assert ["thread", "add", thread, "progress", "half way"] == shlex.split(command)
    assert 0 == sandbox.handoff(*shlex.split(command)).returncode
