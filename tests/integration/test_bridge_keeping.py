"""Threads in a running daemon: wiped for good, never done twice, within limits, without secrets."""

import contextlib
import os
import random
import secrets
import signal
import subprocess
import sys

import pytest

from conftest import DaemonSandbox, wait_for
from handoffd.store.core import CoreStore
from mcp_socket_client import Mcp, ask, configure, files_with
from planted_secrets import FORMATS, draw

pytestmark = pytest.mark.quick

KIB = 1 << 10
ARCHIVING = "[threads]\narchive_on_close = true\n"
REFUSING = "[threads]\nrefuse_secrets = true\n"
# A daemon that looks after the copy of core.db every moment.
EAGER = """
import handoffd.app as app
from handoff.common import paths
from handoffd.start import start
app.CORE_LOOK_SECONDS = 0.2
start(paths.config_file(), None)
"""
# A program that reads core.db until it is told to stop. It is a process of its own, because closing
# a file drops all locks that a process has on it, and these tests look into the files.
READER = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("BEGIN")
db.execute("SELECT * FROM handoffs").fetchone()
print("reading", flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def reading(sandbox: DaemonSandbox):
    command = [sys.executable, "-c", READER, str(sandbox.state / "core.db")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert b"reading\n" == process.stdout.readline()
        yield
        process.stdin.close()


def start_eager(sandbox: DaemonSandbox) -> DaemonSandbox:
    with sandbox.log.open("ab") as stream:
        sandbox.process = subprocess.Popen(
            [sys.executable, "-P", "-c", EAGER],
            env=sandbox.environment, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream, cwd="/",
        )  # fmt: skip
    wait_for(lambda: sandbox.alive() and sandbox.answers(), what="the daemon answers")
    return sandbox


def warnings_of(sandbox: DaemonSandbox) -> list[str]:
    return [warning["code"] for warning in sandbox.request("status")["result"]["warnings"]]


def planted_words(size: int) -> tuple[str, bytes]:
    """Return a text that repeats one marker, and the marker."""
    marker = secrets.token_hex(16)
    return (f"{marker} " * (size // 33 + 1))[:size], marker.encode()


# Closing wipes for good


@pytest.mark.parametrize("size", [200, 5 * KIB, 256 * KIB])
@pytest.mark.seed("000", "Deletes all entries and marks the handoff as `completed`.")
def test_closing_leaves_no_byte(live, size):
    """No file of the daemon holds the text of a closed thread, however long the text was."""
    words, marker = planted_words(size)
    with Mcp(live) as mcp:
        others = [mcp.create(f"other {number} " + "y" * 3000) for number in range(3)]
        thread = mcp.create(words)
        for number, other in enumerate(others):
            mcp.add(thread, words, as_client="code")
            mcp.add(other, f"more {number} " + "z" * 3000)
        assert files_with(live.home, marker)
        result = mcp.close(thread)
        assert ["y", "z"] == [e["content"][-1] for e in mcp.get(others[0])["entries"]]

    assert "warnings" not in result
    assert [] == files_with(live.home, marker)
    assert (live.state / "core.db.backup").is_file()
    assert marker.decode() not in live.log.read_text()


def test_a_secret_in_the_title_is_masked_by_closing(live):
    """Title and tag stay after a close, but a secret in them does not."""
    secret = "ghp_" + "aB3dE5fG7h" * 4
    with Mcp(live) as mcp:
        thread = mcp.create(title=f"Rotate {secret}", project=secret)
        mcp.close(thread)
        left = mcp.get(thread)["handoff"]

    assert ("Rotate [redacted:github-token]", "[redacted:github-token]") == (
        left["title"], left["project"],
    )  # fmt: skip
    assert [] == files_with(live.home, secret.encode())


def test_closing_wipes_the_copy_too(live):
    """Closing a thread replaces an earlier copy of core.db by one without the thread's text."""
    words, marker = planted_words(20 * KIB)
    with Mcp(live) as mcp:
        thread = mcp.create(words)
        store = CoreStore(str(live.state / "core.db"))
        store.back_up()
        store.close()
        assert "core.db.backup" in files_with(live.state, marker)
        mcp.close(thread)

    assert [] == files_with(live.home, marker)
    assert 0o600 == (live.state / "core.db.backup").stat().st_mode & 0o777


def test_a_reader_holds_the_wiping_up_and_it_is_made_good(sandbox):
    """If another program reads core.db, the result says so, no copy stays, later all is gone."""
    sandbox.transcripts.mkdir(parents=True)
    words, marker = planted_words(20 * KIB)
    start_eager(sandbox)
    with Mcp(sandbox) as mcp:
        thread = mcp.create(words)
        wait_for((sandbox.state / "core.db.backup").exists, what="a copy is made")
        with reading(sandbox):
            result = mcp.close(thread)
            assert "another program is reading core.db" in result["warnings"][0]
            assert [] == mcp.get(thread)["entries"]
            assert "core.db.backup" not in files_with(sandbox.state, marker)
            wait_for(lambda: "copy_failed" in warnings_of(sandbox), what="the warning")
            assert files_with(sandbox.state, marker)

    wait_for(lambda: not files_with(sandbox.home, marker), what="what was said is gone")
    wait_for((sandbox.state / "core.db.backup").exists, what="a copy is made")
    wait_for(lambda: "copy_failed" not in warnings_of(sandbox), what="the warning is gone")


def test_wiping_that_was_held_up_is_made_good_after_a_restart(sandbox):
    """A missing copy tells a new daemon, too, that data is still to be wiped."""
    sandbox.transcripts.mkdir(parents=True)
    words, marker = planted_words(20 * KIB)
    sandbox.start()
    with Mcp(sandbox) as mcp:
        thread = mcp.create(words)
        with reading(sandbox):
            assert mcp.close(thread)["warnings"]
            sandbox.kill()
            assert files_with(sandbox.state, marker)
            start_eager(sandbox)
            wait_for(lambda: "copy_failed" in warnings_of(sandbox), what="it was tried")

    wait_for(lambda: not files_with(sandbox.home, marker), what="what was said is gone")
    wait_for((sandbox.state / "core.db.backup").exists, what="a copy is made")


def test_closing_again_wipes_again(live):
    """Closing a thread again, after a warning, erases its text once the reader is gone."""
    words, marker = planted_words(20 * KIB)
    with Mcp(live) as mcp:
        thread = mcp.create(words)
        with reading(live):
            assert mcp.close(thread)["warnings"]
            assert files_with(live.state, marker)
        assert "warnings" not in mcp.close(thread)

    assert [] == files_with(live.home, marker)


# A copy where it is wanted


def token() -> str:
    return draw(FORMATS["github-token"][0], random.Random(1))


def test_archive_on_close_keeps_a_redacted_copy_first(sandbox):
    """With `archive_on_close` a masked copy stays that only the user can read; else none stays."""
    configure(sandbox, ARCHIVING)
    sandbox.transcripts.mkdir(parents=True)
    sandbox.start()
    secret = token()
    with Mcp(sandbox) as mcp:
        thread = mcp.create("We decided on JWT.", title="Auth", project="hlg")
        mcp.add(thread, f"The key is {secret}", "question", as_client="code")
        mcp.close(thread)
        copy = sandbox.state / "archive" / f"{thread}.md"
        text = copy.read_text()
        mcp.close(thread)
        assert text == copy.read_text()
        configure(sandbox, "")
        sandbox.process.send_signal(signal.SIGHUP)
        wait_for(lambda: "config_reloaded" in sandbox.log.read_text())
        mcp.close(mcp.create())

    assert text.startswith(f"# Auth\n\nThread {thread}, begun ")
    assert ", project hlg\n" in text
    assert " · chat · context · " in text
    assert "We decided on JWT." in text
    assert " · code · question · " in text
    assert secret not in text
    assert [] == files_with(sandbox.home, secret.encode())
    assert [copy] == list(copy.parent.iterdir())
    assert (0o700, 0o600) == (copy.parent.stat().st_mode & 0o777, copy.stat().st_mode & 0o777)


def test_nothing_is_closed_if_its_copy_cannot_be_kept(sandbox):
    """If the wanted copy cannot be kept, the thread stays as it is, and the error says why."""
    configure(sandbox, ARCHIVING)
    sandbox.transcripts.mkdir(parents=True)
    sandbox.start()
    (sandbox.state / "archive").write_text("in the way")
    with Mcp(sandbox) as mcp:
        thread = mcp.create()
        text = mcp.refusal("close_handoff", id=thread)
        got = mcp.get(thread)
        (sandbox.state / "archive").unlink()
        mcp.close(thread)

    assert f"Handoff '{thread}' was not closed: no copy could be kept (" in text
    assert ("active", 1) == (got["handoff"]["status"], len(got["entries"]))
    assert (sandbox.state / "archive" / f"{thread}.md").exists()


# Limits


def test_a_title_has_500_characters_at_most(mcp):
    """A title of 500 characters of any script is kept.

    One more character is an error that says so.
    """
    for title in ("x" * 500, "漢" * 500):
        thread = mcp.create(title=title)
        assert title == mcp.get(thread)["handoff"]["title"]
    text = mcp.refusal("create_handoff", title="x" * 501, content="c")

    assert "A title may have 500 characters; this one has 501." == text.splitlines()[0]


def test_a_project_tag_has_500_characters_at_most(mcp):
    """A tag is kept whole or refused."""
    thread = mcp.create(project="x" * 500)
    text = mcp.refusal("create_handoff", title="t", content="c", project="x" * 501)

    assert "x" * 500 == mcp.get(thread)["handoff"]["project"]
    assert "A project tag may have 500 characters; this one has 501." == text.splitlines()[0]


@pytest.mark.parametrize("character", ["x", "ü", "漢", "😀"])
def test_content_has_256_kib_at_most(mcp, character):
    """The size is measured in bytes of UTF-8; one character more is an error that says so."""
    whole = character * (256 * KIB // len(character.encode()))
    whole += "x" * (256 * KIB - len(whole.encode()))
    thread = mcp.create(whole)
    mcp.add(thread, whole)
    expected = "An entry may have 256 KiB; this one has 257 KiB."

    assert [whole, whole] == [entry["content"] for entry in mcp.get(thread)["entries"]]
    for tool, given in (
        ("create_handoff", {"title": "t"}),
        ("add_to_handoff", {"id": thread, "type": "task"}),
    ):
        assert expected == mcp.refusal(tool, content=whole + "x", **given).splitlines()[0]
    assert 2 == len(mcp.get(thread)["entries"])


def test_a_thread_has_1_mib_at_most(mcp):
    """Four entries of the largest size fit.

    One byte more does not, and the error suggests closing.
    """
    thread = mcp.create("x" * 256 * KIB)
    for _ in range(3):
        mcp.add(thread, "x" * 256 * KIB)
    text = mcp.refusal("add_to_handoff", id=thread, type="task", content="x")

    assert f"Handoff '{thread}' is full: its entries may have 1 MiB in all." == text.splitlines()[0]
    assert 4 == len(mcp.get(thread)["entries"])
    assert "Close it" in text


def test_control_characters_are_taken_out(mcp):
    """ESC, NUL, BEL, DEL and C1 are removed, lone surrogates replaced; newlines and tabs stay."""
    thread = mcp.create(
        "a\x1b[31mb\x00c\x07d\x7fe\x9bf\u0085g\ud800h\ti\r\nj\nk\rl",
        title="T\x1b]0;x\x07\nwo\tlines",
        project="p\x00q",
    )
    got = mcp.get(thread)

    assert "a[31mbcdefg\ufffdh\ti\nj\nk\nl" == got["entries"][0]["content"]
    assert ("T]0;x wo lines", "pq") == (got["handoff"]["title"], got["handoff"]["project"])


def test_words_are_kept_as_they_are(mcp):
    """Spaces, empty lines, other scripts and text like SQL, JSON or markup are kept as they are."""
    words = '  two  \n\n\n# not a title\n\'; DROP TABLE handoffs; --\n{"a": 1} <b> שלום 👩‍👩‍👧 \u2028 é\n\n'
    thread = mcp.create(words)

    assert words == mcp.get(thread)["entries"][0]["content"]


@pytest.mark.parametrize("blank", ["", " ", "\n\t ", "\x00\x1b", "\u2003"])
def test_what_is_blank_is_refused(mcp, blank):
    """A blank title or content is refused."""
    thread = mcp.create()

    assert "A handoff needs a title." == mcp.refusal("create_handoff", title=blank, content="c")
    assert "There is no content." == mcp.refusal("create_handoff", title="t", content=blank)
    refused = mcp.refusal("add_to_handoff", id=thread, type="task", content=blank)
    assert "There is no content." == refused


@pytest.mark.parametrize(
    "hostile",
    [
        "../../../etc/passwd", "hof_../../x", "a\x00b", "hof_" + "A" * (1 << 19), "hof_ÄÖÜ",
        "\u202ehof_x", "' OR 1=1 --", "%", "\ud800", "\n", "hof_x hof_y", "{}", "hof_" + "漢" * 21,
    ],
    ids=lambda text: ascii(text[:12]),
)  # fmt: skip
@pytest.mark.parametrize("tool", ["get_handoff", "mark_handoff_read", "close_handoff"])
def test_hostile_ids_are_not_found(mcp, tool, hostile):
    """An impossible id is answered like an unknown one, in few words."""
    text = mcp.refusal(tool, id=hostile)

    assert text.startswith("Handoff '")
    assert text.endswith("' not found.")
    assert len(text) < 120


# Secrets


def test_secrets_are_warned_about_and_kept_as_written(mcp):
    """The result names the kind of the secret and not the secret; the text stays as it is."""
    secret = token()
    made = mcp.call("create_handoff", title="t", content=f"The key is {secret}")
    thread = made["handoff"]["id"]
    given = {"id": thread, "type": "task", "content": f"again: {secret}"}
    added = mcp.call("add_to_handoff", **given)
    plain = mcp.call("add_to_handoff", **{**given, "content": "nothing of that kind"})

    for result in (made, added):
        (warning,) = result["warnings"]
        assert "github-token" in warning
        assert secret not in warning
    assert "warnings" not in plain
    assert f"The key is {secret}" == mcp.get(thread)["entries"][0]["content"]


def test_secrets_are_refused_where_that_is_configured(sandbox):
    """With `refuse_secrets` nothing of a secret is stored: not in content, title or tag."""
    configure(sandbox, REFUSING)
    sandbox.transcripts.mkdir(parents=True)
    sandbox.start()
    secret = token()
    with Mcp(sandbox) as mcp:
        thread = mcp.create("plain")
        refused = [
            mcp.refusal("create_handoff", title="t", content=f"The key is {secret}"),
            mcp.refusal("create_handoff", title=secret, content="c"),
            mcp.refusal("create_handoff", title="t", content="c", project=secret),
            mcp.refusal("add_to_handoff", id=thread, type="task", content=f"key {secret}"),
        ]
        assert 1 == len(mcp.get(thread)["entries"])

    assert 4 == sum("It was not kept." in text and secret not in text for text in refused)
    assert [(1, 1)] == ask(
        sandbox, "SELECT (SELECT count(*) FROM handoffs), (SELECT count(*) FROM handoff_entries)"
    )
    assert [] == files_with(sandbox.home, secret.encode())


# Once


def test_the_same_call_is_done_once(live):
    """A repeated call with the same key is answered as before, also by the next daemon."""
    given = {"title": "t", "content": "first"}
    with Mcp(live) as mcp:
        made = mcp.call("create_handoff", once="create-1", **given)
        thread = made["handoff"]["id"]
        added = mcp.call("add_to_handoff", once="add-1", id=thread, type="task", content="second")
    live.restart()
    with Mcp(live) as mcp:
        again = mcp.call("create_handoff", once="create-1", **given)
        added_again = mcp.call(
            "add_to_handoff", once="add-1", id=thread, type="task", content="second"
        )
        entries = mcp.get(thread)["entries"]

    assert made["entries"] == again["entries"]
    assert thread == again["handoff"]["id"]
    assert added["entry"] == added_again["entry"]
    assert ["first", "second"] == [entry["content"] for entry in entries]
    assert [(1,)] == ask(live, "SELECT count(*) FROM handoffs")


def test_a_kill_after_the_call_does_it_once(live):
    """A call whose daemon is killed before it answers is done once, if repeated with its key."""
    with Mcp(live) as mcp:
        thread = mcp.create()
        params = {
            "name": "add_to_handoff",
            "arguments": {"id": thread, "type": "task", "content": "x"},
        }
        frame = {"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": params}
        mcp.send({**frame, "once": "k"})
        live.kill()
    live.start()
    with Mcp(live) as mcp:
        result = mcp.result("tools/call", params, once="k")
        assert False is result["isError"]
        entries = mcp.get(thread)["entries"]

    assert 2 == len(entries)


def test_other_keys_are_other_calls(mcp):
    """The same text with another key, or without one, is added twice."""
    thread = mcp.create()
    given = {"id": thread, "type": "task", "content": "again"}
    numbers = [
        mcp.call("add_to_handoff", **key, **given)["entry"]["seq"]
        for key in ({"once": "a-1"}, {"once": "a-2"}, {}, {})
    ]

    assert 4 == len(set(numbers))


def test_a_repeated_call_after_the_thread_was_closed(served, mcp):
    """After the close a repeated call gets the same answer; its entry is not stored again."""
    words, marker = planted_words(100)
    thread = mcp.create()
    given = {"id": thread, "type": "done", "content": words}
    added = mcp.call("add_to_handoff", once="late", **given)
    mcp.close(thread)
    again = mcp.call("add_to_handoff", once="late", **given)

    assert added["entry"]["seq"] == again["entry"]["seq"]
    assert "completed" == again["handoff"]["status"]
    assert [] == mcp.get(thread)["entries"]
    assert [] == files_with(served.home, marker)


def test_no_key_is_kept_with_words(served, mcp):
    """The store keeps only the key of a call and the place of its entry."""
    mcp.create("words", title="title")
    columns = [row[1] for row in ask(served, "PRAGMA table_info(thread_calls)")]

    assert ["number", "key", "handoff_id", "seq"] == columns


@pytest.mark.parametrize("key", [5, None, ["x"], "x" * 101])
def test_a_key_is_a_short_text(mcp, key):
    """Any other key is refused, because ignoring it would do a call twice."""
    params = {"name": "create_handoff", "arguments": {"title": "t", "content": "c"}}
    reply = mcp.request("tools/call", params, once=key)

    assert (-32602, "once must be a text of 100 characters at most") == (
        reply["error"]["code"],
        reply["error"]["message"],
    )


# The rolling copy


def test_the_daemon_keeps_a_copy_of_core_db(sandbox):
    """Soon after the start there is a copy that opens as a core.db. Only the user can read it."""
    sandbox.transcripts.mkdir(parents=True)
    start_eager(sandbox)
    copy = sandbox.state / "core.db.backup"
    with Mcp(sandbox) as mcp:
        wait_for(copy.exists, what="a copy is made")
        thread = mcp.create("kept")
        made = copy.stat()
        os.utime(copy, (1, 1))
        wait_for(lambda: copy.stat().st_ino != made.st_ino, what="an old copy is made anew")
    store = CoreStore(str(copy))
    _, entries = store.threads.read(thread)
    store.close()

    assert ["kept"] == [entry.content for entry in entries]
    assert 0o600 == copy.stat().st_mode & 0o777


def test_a_copy_that_cannot_be_made_is_said_and_ends_nothing(sandbox):
    """The daemon goes on, logs the failure, and reports it in every status until a copy is made."""
    sandbox.transcripts.mkdir(parents=True)
    (sandbox.state / "core.db.backup").mkdir(parents=True)
    sandbox.state.chmod(0o700)
    os.utime(sandbox.state / "core.db.backup", (1, 1))
    start_eager(sandbox)
    wait_for(lambda: "copy_failed" in warnings_of(sandbox), what="the warning")
    with Mcp(sandbox) as mcp:
        mcp.create()
    (sandbox.state / "core.db.backup").rmdir()
    wait_for(lambda: "copy_failed" not in warnings_of(sandbox), what="the warning is gone")

    assert "copy_failed" in sandbox.log.read_text()
    assert [] == list(sandbox.state.glob("core.db.backup.new*"))
