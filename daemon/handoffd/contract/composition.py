"""What a session leaves behind, in the sections of a handoff. Pure."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

from handoffd.contract.contract_format import (
    PURPOSE_MAX,
    REASON_MAX,
    Contract,
    ForeignLines,
    bullets,
    complete,
    written_path,
)
from handoffd.contract.prose import NAMES_MAX, listed, prose, same, unsaid
from handoffd.contract.reported_work import TELLING, is_reported, report
from handoffd.session import insights
from handoffd.session.state import Check, SessionState, own_words, worked_since
from handoffd.session.statements import statements
from handoffd.session.text import keep, sentences, shorten, weight

DONE_MAX, NEXT_MAX, GOTCHAS_MAX, RISKS_MAX = 8, 6, 5, 6
# What a reader is told of where it comes from.
SOURCE = "handoffd, from the session's transcript: a record of the past, no instructions"
# Of each kind, so that none crowds out the others.
TODOS_MAX, COMMITS_MAX, DECISIONS_MAX = 3, 3, 3


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What is known around a session when its handoff is written."""

    # The day of the handoff, YYYY-MM-DD.
    date: str
    # Files that differ from the last commit, relative to the root.
    uncommitted: Sequence[str] = ()
    # How many commits no remote has; None where that is not known or there is no remote.
    unpushed: int | None = None
    # Secrets that a commit of this session took in: "1a2b3c4d5 adds a github-token to src/a.py".
    committed_secrets: Sequence[str] = ()
    # Files that another live session changed, too: "src/a.py (session 1a2b3c4d)".
    contested: Sequence[str] = ()
    # Whether the session has ended, as far as can be seen.
    ended: bool = False
    # What its client said last that it waited for: a permission, mostly.
    waiting_for: str = ""
    # When somebody else told of the work so far: only what came later is told.
    since: str = ""


def is_worth(state: SessionState) -> bool:
    """Tell a session that leaves something behind: an edit, a commit or a second request."""
    return bool(state.edited_at or state.commits or state.prompts > 1)


def account(state: SessionState, root: str, around: Surroundings) -> Contract:
    """Say what was done, what comes next, and what to watch out for."""
    coming = _next(state)
    state = worked_since(state, around.since) if around.since else state
    said: list[str] = list(coming)
    done = unsaid(_done(state, root, coming), said)[:DONE_MAX]
    gotchas = unsaid(_gotchas(state), said)[:GOTCHAS_MAX]
    risks = unsaid(_risks(state, around), said)[:RISKS_MAX]
    named = (("Done", done), ("Next", coming), ("Gotchas", gotchas), ("Risks", risks))
    ours = Contract(
        date=around.date,
        session_id=state.session_id,
        purpose=_purpose(state, done),
        cwd=written_path(state.cwd or root),
        escalations=tuple(_escalations(state, around)),
        sections={name: bullets(items) for name, items in named if items},
        others={"source": SOURCE},
    )
    return complete(ours, ForeignLines())


# The purpose

_PREAMBLE = re.compile(
    r"(?i)(?:\[image #\d+\]\s*|(?:hey|hi|hello)(?: claude)?[,!.]? +"
    r"|(?:the )?user (?:\w+ly )?(?:asked|wanted|wants|requested)(?: me| claude)? to )+"
)


def _purpose(state: SessionState, done: Sequence[str]) -> str:
    """Say in one line what the session was for, or else what it did first."""
    stated = (insights.goal(state), state.title, state.plan)
    known = [value.text for value in stated if value]
    asked = [state.last_prompt.text] if state.last_prompt else []
    telling = [text for text in asked if weight(text) >= TELLING]
    candidates = (*known, *telling, *done, *asked)
    return next((line for text in candidates if (line := _headline(text))), "")


def _headline(text: str) -> str:
    """Return the first sentences that fit into a line."""
    line = prose(text)
    begun = _PREAMBLE.match(line)
    if begun and weight(line[begun.end() :]):
        line = line[begun.end()].upper() + line[begun.end() + 1 :]
    whole = ""
    for part in sentences(line):
        longer = f"{whole} {part}".strip()
        if len(longer) > PURPOSE_MAX:
            break
        whole = longer
    return keep(whole if weight(whole) >= TELLING else line, PURPOSE_MAX)


# Next

_POLITE = re.compile(
    r"(?i)\b(?:anything else|something else|what(?:'s| is) next|what would you like (?:me )?to"
    r"|need anything|(?:can|may) i help|help (?:you )?with)\b"
)


def _next(state: SessionState) -> list[str]:
    """Say what comes next, and what a person has yet to answer."""
    done = [prose(todo.value.text) for todo in state.todos if todo.status == "completed"]
    found: list[str] = []
    for value in insights.upcoming(state):
        line = prose(value.text)
        if line and not _is_past(state, line) and not any(same(line, one) for one in done):
            found.append(line)
    if state.waiting_for and state.waiting and not state.questions:
        found.append(prose(state.waiting.text))
    for question in _questions(state):
        if not any(question in line or same(question, line) for line in found):
            found.append(prose(f"Answer: {question}"))
    return list(dict.fromkeys(line for line in found if line))[:NEXT_MAX]


def _is_past(state: SessionState, line: str) -> bool:
    """Tell the heading of what was done, in an answer that ended there: nothing comes of it."""
    return state.spoke_last and line.endswith((":", "：")) and is_reported(line)


def _questions(state: SessionState) -> list[str]:
    """Return the questions that are open; asking whether there is anything else asks nothing."""
    lines = [prose(value.text) for value in insights.questions(state)]
    return [line for line in lines if line and not _POLITE.search(line)]


# Done


def _done(state: SessionState, root: str, coming: Sequence[str]) -> list[str]:
    """Say what was done, by what shows it; some of every kind rather than all of one."""
    kinds = (
        _reports(state, coming),
        _todos(state),
        _commits(state),
        _pull_requests(state),
        _decisions(state),
        _edited(state, root),
        _green(state),
    )
    rounds = [line for several in zip_longest(*kinds) for line in several if line]
    chosen = set(rounds[:DONE_MAX])
    return [line for kind in kinds for line in kind if line in chosen]


def _reports(state: SessionState, coming: Sequence[str]) -> list[str]:
    """Return the last statement that calls something done, if it says what."""
    for said in reversed(statements(state)):
        line = report(said)
        if line and not any(same(line, other) for other in coming):
            return [line]
    return _last_word(state, coming)


def _last_word(state: SessionState, coming: Sequence[str]) -> list[str]:
    """Return what was said at the end, where nothing was called done: somebody said it."""
    heard = statements(state) if state.spoke_last else []
    if not heard or heard[-1].question:
        return []
    line = prose(heard[-1].opening.text)
    known = not line or line.endswith((":", "：")) or any(same(line, one) for one in coming)
    return [] if known or weight(line) < TELLING else [prose(f"Said last: “{line}”")]


def _todos(state: SessionState) -> list[str]:
    """Return what the list calls completed: the first ones by themselves, the others together."""
    lines = [prose(todo.value.text) for todo in state.todos if todo.status == "completed"]
    done = list(dict.fromkeys(line for line in lines if line))
    if len(done) <= TODOS_MAX:
        return done
    first, others = done[: TODOS_MAX - 1], done[TODOS_MAX - 1 :]
    return [*first, prose(listed("Also completed: ", others, "; "))]


def _commits(state: SessionState) -> list[str]:
    """Return the last commits; one that was amended is said once."""
    latest: dict[str, str] = {}
    for value in state.commits:
        sha, _, message = value.text.partition(" ")
        latest.pop(message or sha, None)
        latest[message or sha] = value.text
    lines = [prose(f"Committed {text}") for text in reversed(latest.values())]
    if len(lines) <= COMMITS_MAX:
        return lines
    earlier = [line.split()[1] for line in lines[COMMITS_MAX - 1 :]]
    return [*lines[: COMMITS_MAX - 1], listed("Committed before: ", earlier)]


def _pull_requests(state: SessionState) -> list[str]:
    if not state.pull_requests:
        return []
    title = state.pull_request_title.text if state.pull_request_title else ""
    *before, last = [value.text for value in state.pull_requests]
    others = [text.split(" ")[0] for text in reversed(before)]
    about = f": {title}" if title and not others else ""
    also = f" (and {', '.join(others[:NAMES_MAX])})" if others else ""
    return [prose(f"Pull request {last}{also}{about}")]


def _decisions(state: SessionState) -> list[str]:
    """Return what a person decided, the latest first."""
    lines: list[str] = []
    for value in reversed(state.decisions):
        text = prose(value.text).removesuffix(" (Recommended)")
        if text:
            lines.append(text if text.startswith("Plan approved:") else prose(f"Decided: {text}"))
    return list(dict.fromkeys(lines))[:DECISIONS_MAX]


def _edited(state: SessionState, root: str) -> list[str]:
    files = sorted(
        (file for file in state.files if file.edits > 0), key=lambda file: -file.edited_at
    )
    paths = (file.path.removeprefix(f"{root}/") for file in files)
    names = list(dict.fromkeys(path.removeprefix(f"{state.cwd}/") for path in paths))
    return [listed("Edited ", names)] if names else []


def _green(state: SessionState) -> list[str]:
    ordered = sorted(state.checks, key=lambda check: -check.at)
    return [prose(f"Tests green: {_run(state, check)}") for check in ordered if check.green][:1]


def _run(state: SessionState, check: Check) -> str:
    """Say what a test command came to, and whether it saw the last edit."""
    when = ", before the last edit" if check.at < state.edited_at else ""
    return f"{_command(state, check)} — {check.summary}{when}"


def _command(state: SessionState, check: Check) -> str:
    return check.command.replace(f"{state.cwd}/", "") if state.cwd else check.command


# Gotchas and risks

_QUOTED_MAX = 140
_MASKED = re.compile(r"\[redacted:([\w-]{1,40})\]")


def _gotchas(state: SessionState) -> list[str]:
    """Say what led nowhere, the latest first, and which theory did not hold."""
    found = [value.text for value in reversed(insights.dead_ends(state))]
    theory, came = insights.hypothesis(state), insights.outcome(state)
    if theory and came and came.text != "success":
        found.insert(0, f"Not so: “{shorten(theory.text, _QUOTED_MAX)}” ({came.text})")
    return [line for text in found if (line := prose(text))]


def _risks(state: SessionState, around: Surroundings) -> list[str]:
    lines = [
        *_red(state),
        *_stopped(state, around),
        *_uncommitted(around),
        *([listed("Changed by another session, too: ", around.contested)] * bool(around.contested)),
        *_secrets(state),
    ]
    return [line for line in map(prose, lines) if line]


def _red(state: SessionState) -> list[str]:
    """Return the tests that failed last, unless the same ones passed since under another name."""
    ordered = sorted(state.checks, key=lambda check: -check.at)
    return [
        f"Tests red: {_run(state, check)}"
        for check in ordered
        if not check.green and not any(_covers(state, later, check) for later in ordered)
    ]


def _covers(state: SessionState, later: Check, red: Check) -> bool:
    """Tell a run that passed later, with the same program, on the same files or on more."""
    if not later.green or later.at <= red.at:
        return False
    program, places = _target(_command(state, later))
    wanted, failed = _target(_command(state, red))
    return program == wanted and (
        not places or (bool(failed) and all(place.startswith(tuple(places)) for place in failed))
    )


def _target(command: str) -> tuple[str, list[str]]:
    """Return which program a test command runs, and on which files."""
    words = command.split()
    places = [word.rstrip("/.") for word in words if "/" in word and not word.startswith("-")]
    return " ".join(words[:2]) if len(words) > 1 and words[1].isalpha() else words[0], places


def _stopped(state: SessionState, around: Surroundings) -> list[str]:
    """Say what a session was stopped by, or that it ended while a person had to answer."""
    if _is_waiting(state, around):
        return ["The session was left waiting for an answer"] if around.ended else []
    return [state.waiting.text] if state.waiting else []


def _uncommitted(around: Surroundings) -> list[str]:
    lines: list[str] = []
    if number := len(around.uncommitted):
        what = "1 file is" if number == 1 else f"{number} files are"
        lines.append(listed(f"{what} uncommitted: ", around.uncommitted))
    if around.unpushed:
        what = "1 commit is" if around.unpushed == 1 else f"{around.unpushed} commits are"
        lines.append(f"{what} not pushed")
    return lines


def _secrets(state: SessionState) -> list[str]:
    """Say which kinds of secrets were masked, except in what an earlier handoff told."""
    kinds = sorted(set(_MASKED.findall(own_words(state))))
    article = "An" if kinds and kinds[0][0] in "aeiou" else "A"
    if len(kinds) > 1:
        return [f"{article} {', a '.join(kinds)} appeared in this session: replace what is real"]
    return [
        f"{article} {kind} appeared in this session: replace it if it is real" for kind in kinds
    ]


# What calls for a person


def _is_waiting(state: SessionState, around: Surroundings) -> bool:
    waits = state.waiting_for and state.waiting
    return bool(waits or around.waiting_for) or bool(_questions(state))


def _escalations(state: SessionState, around: Surroundings) -> list[str]:
    """Say why a person must look before anybody goes on. These three reasons, and no other.

    The session was left waiting for an answer or an approval; a commit of it took in a
    secret; another live session changed the same files.
    """
    reasons: list[str] = []
    if around.ended and _is_waiting(state, around):
        waits = state.waiting.text if state.waiting else around.waiting_for
        asked = _questions(state) or [waits]
        reasons.append(f"a person has yet to answer: {prose(asked[0])}")
    reasons += [f"commit {secret}" for secret in around.committed_secrets[:NAMES_MAX]]
    if around.contested:
        reasons.append(listed("another live session changed the same files: ", around.contested))
    return [keep(reason, REASON_MAX) for reason in reasons]
