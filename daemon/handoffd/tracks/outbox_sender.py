"""Sends the letters in the outbox, one at a time and in order, and tries again what failed.

It is synchronous: a worker thread runs it, with a connection of its own.
"""

import json
from collections.abc import Callable, Mapping
from typing import NamedTuple

from handoffd.links.agent_mail import AgentMail, MailError
from handoffd.links.beads import Beads, BeadsError, BeadsProgram
from handoffd.runtime import clock, log
from handoffd.store.outbox import Letter, Outbox

# How long after the first, second, ... failure the next attempt is made.
PAUSES_SECONDS = (30.0, 120.0, 600.0, 3600.0, 6 * 3600.0)
ATTEMPTS_MAX = 8
# Longer than an attempt takes. One that a crash cut off is made again only then: the program it
# started may still be at work, and would not show what it is about to write.
ATTEMPT_SECONDS = 45.0
# Where there is no program at all, looking costs next to nothing, and one may be installed.
MISSING_SECONDS = 600.0
MISSING_DAYS = 7
PROBLEM_MAX_CHARACTERS = 500

Deliver = Callable[[Letter], None]


class DeliveryError(Exception):
    """A letter did not arrive.

    `final` tells that trying again is of no use, `missing` that nobody is there to take it.
    """

    def __init__(self, message: str, *, final: bool = False, missing: bool = False) -> None:
        super().__init__(message)
        self.final = final
        self.missing = missing


class Delivery(NamedTuple):
    """What became of a letter: sent, or else a problem, for the last time if it is dead."""

    letter: Letter
    sent: bool
    problem: str = ""
    dead: bool = False


def deliver(
    outbox: Outbox,
    deliverers: Mapping[str, Deliver],
    now: float,
    *,
    only_key: str = "",
    most: int = 20,
) -> list[Delivery]:
    """Send what is due, the oldest first; returns what became of each letter."""
    done: list[Delivery] = []
    kinds = tuple(deliverers)
    started = clock.monotonic()
    # One by one: the next letter to a target becomes due when the one before has arrived.
    while kinds and len(done) < most:
        moment = now + clock.monotonic() - started
        found = outbox.due(moment, 1, kinds=kinds, key=only_key)
        if not found:
            break
        # Another process may send as well: the one that counts the attempt makes it.
        if outbox.begin(found[0], moment + ATTEMPT_SECONDS):
            done.append(_deliver_one(outbox, deliverers[found[0].kind], found[0], moment))
    return done


def _deliver_one(outbox: Outbox, send: Deliver, letter: Letter, now: float) -> Delivery:
    letter = letter._replace(attempts=letter.attempts + 1)
    try:
        send(letter)
    except DeliveryError as problem:
        return _fail(outbox, letter, problem, now)
    except Exception as problem:  # noqa: BLE001  one letter must not stop all others
        return _fail(outbox, letter, DeliveryError(log.where(problem)), now)
    outbox.sent(letter.id, clock.iso(now))
    return Delivery(letter, sent=True)


def _fail(outbox: Outbox, letter: Letter, problem: DeliveryError, now: float) -> Delivery:
    words = str(problem)[:PROBLEM_MAX_CHARACTERS]
    if problem.missing:
        pause = MISSING_SECONDS
        dead = now - clock.parse(letter.queued_at) > MISSING_DAYS * clock.DAY_SECONDS
    else:
        pause = PAUSES_SECONDS[min(letter.attempts, len(PAUSES_SECONDS)) - 1]
        dead = problem.final or letter.attempts >= ATTEMPTS_MAX
    outbox.failed(letter.id, words, now + pause, dead)
    return Delivery(letter, sent=False, problem=words, dead=dead)


# Notes in Beads


def deliver_note(letter: Letter, program: BeadsProgram) -> None:
    """Append a letter's body to the notes of the issue it is for.

    An earlier attempt may have arrived although nobody heard of it: then the note's last line,
    which no other note has, is there already.
    """
    beads = Beads(letter.root, program)
    try:
        if letter.attempts > 1 and _has_note(beads.notes(letter.target), letter.body):
            return
        beads.append_notes(letter.target, letter.body)
    except BeadsError as problem:
        raise DeliveryError(str(problem), final=problem.final, missing=problem.missing) from None


def _has_note(notes: str, body: str) -> bool:
    lines = [line.strip() for line in body.splitlines() if line.strip()]
    return bool(lines) and lines[-1] in [line.strip() for line in notes.splitlines()]


# Mail


def mail_body(subject: str, text: str, importance: str) -> str:
    return json.dumps({"subject": subject, "text": text, "importance": importance})


def deliver_mail(mail: AgentMail, letter: Letter) -> None:
    """Send a letter to its thread; a second attempt looks first whether the first one came."""
    held = json.loads(letter.body)
    try:
        mail.send_once(
            letter.root,
            letter.target,
            held["subject"],
            held["text"],
            held["importance"],
            again=letter.attempts > 1,
        )
    except MailError as problem:
        raise DeliveryError(str(problem), final=problem.final) from None
