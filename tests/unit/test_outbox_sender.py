"""The outbox sender: order, retries, giving up, and no note twice."""

import os
import signal
import subprocess
import sys
import time

import pytest

import scripted_bd
from beads_world import KINDS, fresh
from conftest import REPOSITORY, wait_for
from handoffd.links import beads_program
from handoffd.links.beads import Beads, BeadsProgram
from handoffd.runtime import clock
from handoffd.store.database import Schema, open_database, run_script
from handoffd.store.outbox import OUTBOX_SQL, Letter, Outbox
from handoffd.tracks import outbox_sender
from handoffd.tracks.outbox_sender import DeliveryError, deliver, deliver_note

NOW = 1_000_000.0
NOTE = "COMPLETED: Login\nHANDOFF: Section 1 saved at conductor/handoffs/x/1.md"


@pytest.fixture
def outbox(tmp_path):
    """An empty outbox."""
    connection = open_database(
        str(tmp_path / "core.db"), durable=True, schema=Schema(1, run_script(*OUTBOX_SQL))
    )
    yield Outbox(connection)
    connection.close()


@pytest.fixture(params=KINDS)
def world(request, tmp_path, tmp_path_factory):
    """A project with Beads, for every kind of program."""
    return fresh(request.param, tmp_path, tmp_path_factory)


def put(outbox, key, *, kind="beads", root="/p", target="e-1"):
    outbox.queue(kind, "p", root, key, target, NOTE, clock.iso(NOW))
    outbox.release(key)


class Post:
    """A deliverer that records its letters and raises the given problems."""

    def __init__(self, *problems):
        self.problems = list(problems)
        self.got = []

    def __call__(self, letter):
        self.got.append((letter.key, letter.attempts))
        problem = self.problems.pop(0) if self.problems else None
        if problem:
            raise problem


def test_letters_are_sent_once_and_in_order(outbox):
    """Letters are sent oldest first, and a second round has nothing to send."""
    for key in ("a", "b", "c"):
        put(outbox, key)
    post = Post()
    done = deliver(outbox, {"beads": post}, NOW)

    assert ["a", "b", "c"] == [delivery.letter.key for delivery in done if delivery.sent]
    assert [("a", 1), ("b", 1), ("c", 1)] == post.got
    assert [] == deliver(outbox, {"beads": post}, NOW)


def test_a_failure_holds_up_its_target_alone(outbox):
    """A failed letter is retried later; later letters to the same target wait, others do not."""
    put(outbox, "a")
    put(outbox, "b")
    put(outbox, "c", target="e-2")
    post = Post(DeliveryError("locked"))
    done = deliver(outbox, {"beads": post}, NOW)
    assert [("a", False, "locked"), ("c", True, "")] == [
        (delivery.letter.key, delivery.sent, delivery.problem) for delivery in done
    ]
    assert [] == deliver(outbox, {"beads": post}, NOW + 29)
    deliver(outbox, {"beads": post}, NOW + 31)

    assert [("a", 1), ("c", 1), ("a", 2), ("b", 1)] == post.got


def test_pauses_grow_until_it_is_given_up(outbox):
    """Retries come after 30 s, 2 min, 10 min, 1 h, then every 6 h; the eighth failure is final."""
    put(outbox, "a")
    moment, pauses = NOW, []
    while not outbox.dead():
        deliver(outbox, {"beads": Post(DeliveryError("locked"))}, moment)
        pauses.append(round(outbox.unsent()[0].not_before - moment))
        moment = outbox.unsent()[0].not_before

    assert [30, 120, 600, 3600, 21600, 21600, 21600] == pauses[:7]
    assert 8 == len(pauses) == outbox.dead()[0].attempts
    assert "locked" == outbox.dead()[0].problem


def test_what_can_never_arrive_is_given_up_at_once(outbox):
    """A final problem, such as a missing issue, is not retried."""
    put(outbox, "a")
    done = deliver(outbox, {"beads": Post(DeliveryError("no issue", final=True))}, NOW)

    assert done[0].dead
    assert ["a"] == [letter.key for letter in outbox.dead()]


def test_without_a_program_a_letter_waits_a_week(outbox):
    """Without a program a letter stays in the outbox for a week of retries, and then is dead."""
    put(outbox, "a")
    for number in range(20):
        missing = Post(DeliveryError("there is no bd", missing=True))
        deliver(outbox, {"beads": missing}, NOW + number * 600)
    assert (1, [], "there is no bd") == (
        outbox.waiting(),
        outbox.dead(),
        outbox.unsent()[0].problem,
    )
    missing = Post(DeliveryError("there is no bd", missing=True))
    deliver(outbox, {"beads": missing}, NOW + 8 * clock.DAY_SECONDS)

    assert 1 == len(outbox.dead())


def test_a_bug_in_a_deliverer_holds_up_nobody(outbox):
    """An unexpected exception fails only its own letter, and is reported by its location."""
    put(outbox, "a")
    put(outbox, "b", target="e-2")
    done = deliver(outbox, {"beads": Post(KeyError("secret"))}, NOW)

    assert [False, True] == [delivery.sent for delivery in done]
    assert done[0].problem.startswith("KeyError at test_outbox_sender.py")


def test_only_one_key_and_only_known_kinds(outbox):
    """The letters of one record can be sent alone; a kind without a deliverer stays."""
    put(outbox, "a", target="e-1")
    put(outbox, "b", target="e-2")
    put(outbox, "b", kind="mail")
    done = deliver(outbox, {"beads": Post()}, NOW, only_key="b")

    assert [("b", "beads")] == [(delivery.letter.key, delivery.letter.kind) for delivery in done]
    assert 2 == outbox.waiting()


def test_most(outbox):
    """One round sends at most the given number of letters."""
    for number in range(5):
        put(outbox, str(number), target=str(number))

    assert 3 == len(deliver(outbox, {"beads": Post()}, NOW, most=3))


def test_a_note_arrives(world, outbox):
    """A note is appended to a person's notes, by every kind of program."""
    epic = world.epic()
    world.bd("update", epic, "--notes", "by a person")
    put(outbox, "a", root=str(world.root), target=epic)
    deliver(outbox, {"beads": lambda letter: deliver_note(letter, world.beads)}, NOW)

    assert f"by a person\n{NOTE}" == world.notes(epic)
    assert (0, []) == (outbox.waiting(), outbox.dead())


def test_a_note_that_arrived_unheard_is_not_appended_again(world):
    """A second attempt first looks for the note in the issue, and does not append it again."""
    epic = world.epic()
    letter = Letter(1, "beads", "p", str(world.root), "a", epic, NOTE, attempts=1)
    deliver_note(letter, world.beads)
    deliver_note(letter._replace(attempts=2), world.beads)

    assert NOTE == world.notes(epic)


def test_an_unknown_issue_is_final(world):
    """A note for a missing issue is a final error, for every kind of program."""
    world.epic()
    letter = Letter(1, "beads", "p", str(world.root), "a", "shop-nope", NOTE, attempts=1)
    with pytest.raises(DeliveryError) as caught:
        deliver_note(letter, world.beads)

    assert (True, False) == (caught.value.final, caught.value.missing)


def test_an_answer_that_is_lost(tmp_path, outbox, monkeypatch):
    """If bd appends and then hangs, the next attempt finds the note, so the note is there once."""
    monkeypatch.setattr(beads_program, "TIMEOUT_SECONDS", 1.0)
    root = tmp_path / "shop"
    program = scripted_bd.install(tmp_path / "bin", "current", "lost answer")
    (root / ".beads").mkdir(parents=True)
    for words in (["init"], ["create", "Login", "-t", "epic"]):
        subprocess.run([program, *words], cwd=root, check=True, stdout=subprocess.DEVNULL)
    put(outbox, "a", root=str(root), target="shop-0")
    beads = Beads(str(root), BeadsProgram(str(program), confine=False))
    deliverers = {"beads": lambda letter: deliver_note(letter, beads)}
    done = deliver(outbox, deliverers, NOW) + deliver(outbox, deliverers, NOW + 31)

    assert [False, True] == [delivery.sent for delivery in done]
    journal = (root / ".beads" / scripted_bd.JOURNAL).read_text().splitlines()
    assert 2 == len(journal)  # the epic, and the epic with the note


def test_no_program(tmp_path, monkeypatch):
    """Without a program the problem says so, and is marked as a missing program."""
    (tmp_path / ".beads/embeddeddolt").mkdir(parents=True)
    letter = Letter(1, "beads", "p", str(tmp_path), "a", "e-1", NOTE)
    with pytest.raises(DeliveryError, match="no program") as caught:
        deliver_note(letter, Beads(str(tmp_path), BeadsProgram(str(tmp_path / "nowhere"))))

    assert caught.value.missing


SENDER = """
import sys
from handoffd.runtime import clock; from handoffd.tracks import outbox_sender
from handoffd.tracks.outbox_sender import deliver, deliver_note
from handoffd.links.beads import Beads, BeadsProgram
from handoffd.store.database import Schema, open_database, run_script
from handoffd.store.outbox import OUTBOX_SQL, Outbox

database, program, confine, root, epic, count = sys.argv[1:]
program = BeadsProgram(program, confine=confine == "True")
outbox = Outbox(open_database(database, durable=True, schema=Schema(1, run_script(*OUTBOX_SQL))))
for number in range(int(count)):
    body = f"COMPLETED: {number}\\nHANDOFF: Section {number} saved at x/{number}.md"
    if outbox.queue("beads", "p", root, f"x/{number}", epic, body, clock.iso()):
        outbox.release(f"x/{number}")
print("queued", flush=True)
# As if the time for which an attempt is left alone were over: the test waits for its bd to end.
outbox_sender.ATTEMPT_SECONDS = 0
while outbox.waiting():
    deliver(outbox, {"beads": lambda letter: deliver_note(letter, Beads(root, program))}, clock.wall())
"""


@pytest.mark.slow
def test_kill_at_any_time(world, tmp_path):
    """After kills at any time while it queues and sends, every note is there once, in order."""
    epic = world.epic()
    count = 6
    words = [
        sys.executable, "-c", SENDER, str(tmp_path / "core.db"), str(world.program),
        str(world.wanted.confine), str(world.root), epic, str(count),
    ]  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    for number in range(6):
        process = subprocess.Popen(
            words, cwd=REPOSITORY, env=environment, stdout=subprocess.PIPE, start_new_session=True
        )
        process.stdout.readline()
        time.sleep(0.11 * number)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
        wait_for(lambda: not world.processes())
    subprocess.run(words, cwd=REPOSITORY, env=environment, check=True, timeout=60)

    lines = world.notes(epic).splitlines()
    assert [f"COMPLETED: {number}" for number in range(count)] == lines[::2]
    assert 2 * count == len(lines)


def test_limits():
    """An attempt is reserved for longer than its calls can take."""
    calls = 4  # version, help, show, update
    assert outbox_sender.ATTEMPT_SECONDS > calls * beads_program.TIMEOUT_SECONDS
