"""Sends the letters in the outbox, one at a time and in order, and retries failed ones.

The code is synchronous: a worker thread runs it with a database connection of its own.
"""

import json
from collections.abc import Callable, Mapping
from typing import NamedTuple

from handoffd.links.agent_mail import AgentMail, MailError
from handoffd.links.tracker import Tracker, TrackerError
from handoffd.runtime import clock, log
from handoffd.store.outbox import Letter, Outbox

# The pause after the first, second, ... failure.
PAUSES_SECONDS = (30.0, 120.0, 600.0, 3600.0, 6 * 3600.0)
ATTEMPTS_MAX = 8
# Longer than an attempt takes. An attempt that a crash cut off is repeated only then: its program
# may still be running, and the note that it is about to write would not be visible yet.
ATTEMPT_SECONDS = 45.0
# If there is no program at all, a check costs next to nothing, and one may be installed.
MISSING_SECONDS = 600.0
MISSING_DAYS = 7
PROBLEM_MAX_CHARACTERS = 500

Deliver = Callable[[Letter], None]


class DeliveryError(Exception):
    """A letter did not arrive.

    `final` means that a retry is of no use, `missing` that there is no program to take it.
    """

    def __init__(self, message: str, *, final: bool = False, missing: bool = False) -> None:
        super().__init__(message)
        self.final = final
        self.missing = missing


class Delivery(NamedTuple):
    """The result of an attempt: sent, or else a problem; a dead letter is not tried again."""

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
    """Send all due letters, the oldest first. Return the result for each."""
    done: list[Delivery] = []
    kinds = tuple(deliverers)
    started = clock.monotonic()
    # One by one: a letter becomes due when the one before it to the same target has arrived.
    while kinds and len(done) < most:
        moment = now + clock.monotonic() - started
        found = outbox.due(moment, 1, kinds=kinds, key=only_key)
        if not found:
            break
        # Another process may send as well: the process that counts the attempt makes it.
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


# Notes in the issue tracker


def deliver_note(letter: Letter, tracker: Tracker) -> None:
    """Append a letter's body to the notes of its issue.

    An earlier attempt may have arrived without an answer to us. The notes then hold the last line
    of the body already, which no other note has.
    """
    try:
        if letter.attempts > 1 and _has_note(tracker.notes(letter.target), letter.body):
            return
        tracker.append_notes(letter.target, letter.body)
    except TrackerError as problem:
        raise DeliveryError(str(problem), final=problem.final, missing=problem.missing) from None


def _has_note(notes: str, body: str) -> bool:
    lines = [line.strip() for line in body.splitlines() if line.strip()]
    return bool(lines) and lines[-1] in [line.strip() for line in notes.splitlines()]


# Mail


def mail_body(subject: str, text: str, importance: str) -> str:
    return json.dumps({"subject": subject, "text": text, "importance": importance})


def deliver_mail(mail: AgentMail, letter: Letter) -> None:
    """Send a letter to its thread. A second attempt first checks whether the first one arrived."""
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
