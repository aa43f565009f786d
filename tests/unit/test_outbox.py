"""The outbox: letters are held, waiting, sent or dead, in order, and never queued twice."""

import sqlite3

import pytest

from handoffd.store.database import Schema, open_database, run_script, transaction
from handoffd.store.outbox import OUTBOX_SQL, Outbox

AT = "2026-01-01T00:00:00Z"


@pytest.fixture
def db(tmp_path):
    """A database with the outbox table."""
    connection = open_database(
        str(tmp_path / "core.db"), durable=True, schema=Schema(1, run_script(*OUTBOX_SQL))
    )
    yield connection
    connection.close()


@pytest.fixture
def outbox(db):
    """An outbox on that database."""
    return Outbox(db)


def hold(outbox, key, *, kind="beads", target="e-1", project="p"):
    return outbox.queue(kind, project, "/p", key, target, f"body of {key}", AT)


def put(outbox, key, **options):
    queued = hold(outbox, key, **options)
    outbox.release(key)
    return queued


def keys(letters):
    return [letter.key for letter in letters]


def test_a_letter_is_held_until_its_file_is_there(outbox):
    """A letter is due only after its release."""
    hold(outbox, "a")
    assert ([], 0, ["a"]) == (outbox.due(0, 9), outbox.waiting(), keys(outbox.unsent()))
    outbox.release("a")

    found = outbox.due(0, 9)[0]
    assert ("beads", "p", "/p", "a", "e-1", "body of a", 0) == found[1:8]
    assert 1 == outbox.waiting()


def test_one_release_for_all_kinds(outbox):
    """The note and the mail about one file share its name as key, and are released together."""
    hold(outbox, "a")
    hold(outbox, "a", kind="mail")
    outbox.release("a")

    assert ["beads", "mail"] == [letter.kind for letter in outbox.due(0, 9)]


def test_a_held_letter_can_be_taken_back(outbox):
    """A held letter can be dropped, and its key is free again; a released letter stays."""
    hold(outbox, "a")
    put(outbox, "b")
    outbox.drop_held("a")
    outbox.drop_held("b")

    assert ["b"] == keys(outbox.unsent())
    assert put(outbox, "a")


def test_a_key_is_taken_once(outbox):
    """A key is queued once, even after it was sent; another kind is another letter."""
    assert [True, False, True] == [put(outbox, "a"), put(outbox, "a"), put(outbox, "a", kind="m")]
    outbox.sent(outbox.due(0, 1)[0].id, AT)

    assert not put(outbox, "a")
    assert ["m"] == [letter.kind for letter in outbox.due(0, 9)]


def test_what_was_sent_keeps_no_words(outbox, db):
    """A sent letter keeps its key but not its body."""
    put(outbox, "a")
    outbox.sent(1, AT)

    assert [("a", "", "sent")] == db.execute("SELECT key, body, state FROM outbox").fetchall()


def test_marks_are_dropped_after_90_days(outbox, db):
    """The row of a sent letter is deleted after 90 days, and no other row is."""
    for key in ("old", "new", "waiting"):
        put(outbox, key)
    outbox.sent(1, "2026-01-01T00:00:00Z")
    outbox.sent(2, "2026-04-15T00:00:00Z")

    assert [("new",), ("waiting",)] == db.execute("SELECT key FROM outbox").fetchall()


def test_letters_to_one_target_keep_their_order(outbox):
    """A letter waits for earlier ones to the same target, and not for those to another target."""
    put(outbox, "a")
    put(outbox, "b")
    put(outbox, "c", target="e-2")
    put(outbox, "d", project="q")
    assert ["a", "c", "d"] == keys(outbox.due(0, 9))
    outbox.failed(1, "x", 100.0, dead=False)
    assert ["c", "d"] == keys(outbox.due(50.0, 9))
    outbox.failed(1, "x", 100.0, dead=True)

    assert ["b", "c", "d"] == keys(outbox.due(50.0, 9))


def test_what_is_due_can_be_narrowed(outbox):
    """The due letters can be limited by kind, by key and by number."""
    put(outbox, "a")
    put(outbox, "a", kind="mail")
    put(outbox, "b", target="e-2")

    assert ["a", "b"] == keys(outbox.due(0, 9, kinds=("beads",)))
    assert ["beads", "mail"] == [letter.kind for letter in outbox.due(0, 9, key="a")]
    assert ["a"] == keys(outbox.due(0, 1))


def test_an_attempt_is_counted_before_it_is_made(outbox, tmp_path):
    """After a crash the attempt is counted, and the letter is due after the attempt's time."""
    put(outbox, "a")
    assert outbox.begin(outbox.due(0, 1)[0], 45.0)
    again = Outbox(
        open_database(
            str(tmp_path / "core.db"), durable=True, schema=Schema(1, run_script(*OUTBOX_SQL))
        )
    )

    assert [] == again.due(44.0, 9)
    assert [1] == [letter.attempts for letter in again.due(45.0, 9)]


def test_an_attempt_is_made_by_one(outbox):
    """Of two senders that begin the same letter one succeeds."""
    put(outbox, "a")
    first, second = outbox.due(0, 1) + outbox.due(0, 1)

    assert [True, False] == [outbox.begin(first, 45.0), outbox.begin(second, 45.0)]


def test_dead_letters(outbox):
    """Dead letters are listed, not retried automatically, and retried on request."""
    put(outbox, "a")
    outbox.begin(outbox.due(0, 1)[0], 0.0)
    outbox.failed(1, "no such issue", 0.0, dead=True)
    assert [("a", "no such issue", True)] == [
        (letter.key, letter.problem, letter.dead) for letter in outbox.dead()
    ]
    assert [] == outbox.due(1e12, 9)
    assert 1 == outbox.retry_dead()

    assert [1] == [letter.attempts for letter in outbox.due(0, 9)]
    assert [] == outbox.dead()


def test_a_letter_goes_with_the_transaction_around_it(outbox, db):
    """A letter that is queued in a failed transaction is not stored."""

    def both():
        with transaction(db):
            put(outbox, "a")
            db.execute("INSERT INTO outbox (kind) VALUES (NULL)")

    with pytest.raises(sqlite3.IntegrityError):
        both()

    assert [] == outbox.unsent()
