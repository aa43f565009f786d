"""Composes the handoff of a session, section by section. Pure."""

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
from handoffd.contract.prose import NAMES_MAX, drop_repeats, listed, prose, same
from handoffd.contract.reported_work import MEANINGFUL_WORDS_MIN, is_reported, report
from handoffd.session import insights
from handoffd.session.checks import covers
from handoffd.session.state import Check, SessionState, own_words, worked_since
from handoffd.session.statements import is_offer, statements
from handoffd.session.summary import recapped_work
from handoffd.session.text import keep, sentences, shorten, weight, whole_sentences

DONE_MAX, NEXT_MAX, GOTCHAS_MAX, RISKS_MAX = 8, 6, 5, 6
# The `source:` line, which tells the reader where the handoff comes from.
SOURCE = "handoffd, from the session's transcript: a record of the past, no instructions"
# Limits per kind, so that no kind crowds out the others.
TODOS_MAX, COMMITS_MAX, DECISIONS_MAX = 3, 3, 3
RECAP_MAX = 280
# The shortest hash that git prints.
HASH_MIN = 7
_HASH = re.compile(r"[0-9a-f]{7,40}")


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The facts around a session when its handoff is written."""

    # The day of the handoff, YYYY-MM-DD.
    date: str
    # Files that differ from the last commit, relative to the root.
    uncommitted: Sequence[str] = ()
    # How many commits no remote has; None if that is unknown or there is no remote.
    unpushed: int | None = None
    # The commits that git has since the session began, the newest first: time, hash and subject.
    commits: Sequence[tuple[str, str]] = ()
    # Secrets that a commit of this session added: "1a2b3c4d5 adds a github-token to src/a.py".
    committed_secrets: Sequence[str] = ()
    # Files that another live session changed as well: "src/a.py (session 1a2b3c4d)".
    contested: Sequence[str] = ()
    # Whether the session has ended, as far as can be seen.
    ended: bool = False
    # The last thing that its client said it waits for, mostly a permission.
    waiting_for: str = ""
    # When somebody else described the work so far: only later work is described.
    since: str = ""
    # The open items of the project that a person closed.
    closed: insights.Closed = ()


def is_worth(state: SessionState) -> bool:
    """Return True if a session deserves a handoff: an edit, a commit or a second request."""
    return bool(state.edited_at or state.commits or state.prompts > 1)


def account(state: SessionState, root: str, around: Surroundings) -> Contract:
    """Compose a session's handoff: the work done, the next steps, the gotchas and the risks."""
    upcoming = _next_steps(state, around.closed)
    state = worked_since(state, around.since) if around.since else state
    said: list[str] = list(upcoming)
    done = drop_repeats(_done(state, root, around, upcoming), said)[:DONE_MAX]
    gotchas = drop_repeats(_gotchas(state), said)[:GOTCHAS_MAX]
    risks = drop_repeats(_risks(state, around), said)[:RISKS_MAX]
    if not (done or upcoming or gotchas or risks):
        done = _answered(state)
    named = (("Done", done), ("Next", upcoming), ("Gotchas", gotchas), ("Risks", risks))
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
    """Return the goal of the session in one line, or else the first work it did."""
    stated = (insights.goal(state), state.title, state.plan)
    known = [value.text for value in stated if value]
    asked = [state.last_prompt.text] if state.last_prompt else []
    meaningful = [text for text in asked if weight(text) >= MEANINGFUL_WORDS_MIN]
    telling = [text for text in known if weight(text) > 1]
    candidates = (*telling, *meaningful, *done, *known, *asked)
    return next((line for text in candidates if (line := _headline(text))), "")


def _headline(text: str) -> str:
    """Return the first sentences that fit into one line."""
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
    return keep(whole if weight(whole) >= MEANINGFUL_WORDS_MIN else line, PURPOSE_MAX)


# Next

_POLITE = re.compile(
    r"(?i)\b(?:anything else|something else|what(?:'s| is) next|what would you like (?:me )?to"
    r"|need anything|(?:can|may) i help|help (?:you )?with)\b"
)


def _next_steps(state: SessionState, closed: insights.Closed) -> list[str]:
    """Return the next steps, and the questions that a person has yet to answer."""
    done = [prose(todo.value.text) for todo in state.todos if todo.status == "completed"]
    found: list[str] = []
    for value in insights.upcoming(state, closed):
        line = prose(value.text)
        if (
            line
            and not _is_heading_of_done_work(state, line)
            and not any(same(line, one) for one in done)
        ):
            found.append(line)
    if state.waiting_for and state.waiting and not state.questions:
        found.append(prose(state.waiting.text))
    for question in _questions(state, closed):
        if not any(question in line or same(question, line) for line in found):
            found.append(prose(f"Answer: {question}"))
    # The risks name the work that is to be committed or pushed.
    quoted = [value.text for value in insights.offers(state) if value.receipt.evidence == "quoted"]
    found += [prose(f"Offered: {text}") for text in quoted if is_offer(text)]
    return list(dict.fromkeys(line for line in found if line))[:NEXT_MAX]


def _is_heading_of_done_work(state: SessionState, line: str) -> bool:
    """Return True for a heading of finished work at the end of an answer: it is no next step."""
    return state.spoke_last and line.endswith((":", "：")) and is_reported(line)


def _questions(state: SessionState, closed: insights.Closed) -> list[str]:
    """Return the open questions, without polite ones such as "Anything else?"."""
    lines = [prose(value.text) for value in insights.questions(state, closed)]
    return [line for line in lines if line and not _POLITE.search(line)]


# Done


def _done(
    state: SessionState, root: str, around: Surroundings, upcoming: Sequence[str]
) -> list[str]:
    """Return the work done, by its evidence; some items of every kind rather than all of one."""
    kinds = (
        [*_recap(state), *_reported(state, upcoming)],
        _todos(state),
        _commits(state, around),
        _commits_besides(state, around),
        _pull_requests(state),
        _decisions(state),
        _edited_files(state, root),
        _passed_tests(state),
    )
    rounds = [line for several in zip_longest(*kinds) for line in several if line]
    chosen = set(rounds[:DONE_MAX])
    return [line for kind in kinds for line in kind if line in chosen]


def _reported(state: SessionState, upcoming: Sequence[str]) -> list[str]:
    """Return the last statement that reports finished work, if it names the work."""
    for said in reversed(statements(state)):
        line = report(said)
        if line and not any(same(line, other) for other in upcoming):
            return [line]
    return _last_words(state, upcoming)


def _recap(state: SessionState) -> list[str]:
    """Return the client's own recap of the work, as a quotation; its next step is in Next."""
    found = insights.standing_recap(state)
    words = whole_sentences(recapped_work(found.text), RECAP_MAX) if found else ""
    return [prose(f"Recap: “{words}”")] if weight(words) >= MEANINGFUL_WORDS_MIN else []


def _answered(state: SessionState) -> list[str]:
    """Return the last request that was answered: a handoff never has a header only."""
    asked = [request.value.text for request in state.requests if weight(request.value.text)]
    line = prose(asked[-1]) if asked else ""
    return [prose(f"Answered: “{line}”")] if line and insights.is_answered(state) else []


def _last_words(state: SessionState, upcoming: Sequence[str]) -> list[str]:
    """Return the assistant's last words, marked as a quotation, if no work was reported done."""
    said = statements(state) if state.spoke_last else []
    if not said or said[-1].question or _recap(state):
        return []
    line = prose(said[-1].opening.text)
    known = not line or line.endswith((":", "：")) or any(same(line, one) for one in upcoming)
    return [] if known or weight(line) < MEANINGFUL_WORDS_MIN else [prose(f"Said last: “{line}”")]


def _todos(state: SessionState) -> list[str]:
    """Return the completed todos: the first ones in a line each, the others in one line."""
    lines = [prose(todo.value.text) for todo in state.todos if todo.status == "completed"]
    done = list(dict.fromkeys(line for line in lines if line))
    if len(done) <= TODOS_MAX:
        return done
    first, others = done[: TODOS_MAX - 1], done[TODOS_MAX - 1 :]
    return [*first, prose(listed("Also completed: ", others, "; "))]


def _commits(state: SessionState, around: Surroundings) -> list[str]:
    """Return the last commits; an amended commit is listed once."""
    latest: dict[str, str] = {}
    for value in state.commits:
        sha, message = _parts(value.text)
        latest.pop(message or sha, None)
        latest[message or sha] = sha or _hash_of(message, around)
    commits = [(sha, message) for message, sha in reversed(latest.items())]
    return _listed_commits("Committed", commits)


def _commits_besides(state: SessionState, around: Surroundings) -> list[str]:
    """Return the commits that git has and the transcript does not, such as those made by hand."""
    own = [_parts(value.text) for value in state.commits]
    hashes = tuple(sha[:HASH_MIN] for sha, _ in own if sha)
    messages = [message for _, message in own if message]
    found = [_parts(text) for time, text in around.commits if time > around.since]
    others = [
        (sha, message)
        for sha, message in found
        if not sha.startswith(hashes) and message not in messages
    ]
    return _listed_commits("Committed during the session:", others)


def _listed_commits(before: str, commits: Sequence[tuple[str, str]]) -> list[str]:
    """Return a line per commit; if there are many, the earlier ones share a line."""
    shown = commits if len(commits) <= COMMITS_MAX else commits[: COMMITS_MAX - 1]
    lines = [prose(f"{before} {sha} {'' if message == sha else message}") for sha, message in shown]
    earlier = [sha or message for sha, message in commits[len(shown) :]]
    return [*lines, listed("Committed before: ", earlier)] if earlier else lines


def _parts(commit: str) -> tuple[str, str]:
    """Return the hash of a commit, if it is known, and its subject."""
    sha, _, message = commit.partition(" ")
    return (sha, message) if _HASH.fullmatch(sha) else ("", commit)


def _hash_of(message: str, around: Surroundings) -> str:
    """Return git's hash of a commit that was made quietly, or an empty text."""
    known = (_parts(text) for _, text in around.commits)
    return next((sha for sha, subject in known if subject == message), "")


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
    """Return a person's decisions, the latest first."""
    lines: list[str] = []
    for value in reversed(state.decisions):
        text = prose(value.text).removesuffix(" (Recommended)")
        if text:
            lines.append(text if text.startswith("Plan approved:") else prose(f"Decided: {text}"))
    return list(dict.fromkeys(lines))[:DECISIONS_MAX]


def _edited_files(state: SessionState, root: str) -> list[str]:
    files = sorted(
        (file for file in state.files if file.edits > 0), key=lambda file: -file.edited_at
    )
    paths = (file.path.removeprefix(f"{root}/") for file in files)
    names = list(dict.fromkeys(path.removeprefix(f"{state.cwd}/") for path in paths))
    return [listed("Edited ", names)] if names else []


def _passed_tests(state: SessionState) -> list[str]:
    ordered = sorted(state.checks, key=lambda check: -check.at)
    return [
        prose(f"Tests green: {_test_result(state, check)}") for check in ordered if check.green
    ][:1]


def _test_result(state: SessionState, check: Check) -> str:
    """Return a test command with its result, and whether it ran before the last edit."""
    when = ", before the last edit" if check.at < state.edited_at else ""
    return f"{_command(state, check)} — {check.summary}{when}"


def _command(state: SessionState, check: Check) -> str:
    return check.command.replace(f"{state.cwd}/", "") if state.cwd else check.command


# Gotchas and risks

_QUOTED_MAX = 140
_MASKED = re.compile(r"\[redacted:([\w-]{1,40})\]")


def _gotchas(state: SessionState) -> list[str]:
    """Return the dead ends, the latest first, and the hypothesis that did not hold."""
    found = [value.text for value in reversed(insights.dead_ends(state))]
    theory, came = insights.hypothesis(state), insights.outcome(state)
    if theory and came and came.text != "success":
        found.insert(0, f"Not so: “{shorten(theory.text, _QUOTED_MAX)}” ({came.text})")
    return [line for text in found if (line := prose(text))]


def _risks(state: SessionState, around: Surroundings) -> list[str]:
    lines = [
        *_failed_tests(state),
        *_stop_reason(state, around),
        *_uncommitted(around),
        *([listed("Changed by another session, too: ", around.contested)] * bool(around.contested)),
        *_masked_secrets(state),
    ]
    return [line for line in map(prose, lines) if line]


def _failed_tests(state: SessionState) -> list[str]:
    """Return the tests that failed last, unless a later run that covers them has passed."""
    ordered = sorted(state.checks, key=lambda check: -check.at)
    return [
        f"Tests red: {_test_result(state, check)}"
        for check in ordered
        if not check.green and not any(later.green and covers(later, check) for later in ordered)
    ]


def _stop_reason(state: SessionState, around: Surroundings) -> list[str]:
    """Return why a session stopped, or that it ended while a person had to answer."""
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


def _masked_secrets(state: SessionState) -> list[str]:
    """Return the kinds of masked secrets, except those in the words of an earlier handoff."""
    kinds = sorted(set(_MASKED.findall(own_words(state))))
    article = "An" if kinds and kinds[0][0] in "aeiou" else "A"
    if len(kinds) > 1:
        return [f"{article} {', a '.join(kinds)} appeared in this session: replace what is real"]
    return [
        f"{article} {kind} appeared in this session: replace it if it is real" for kind in kinds
    ]


# Escalations


def _is_waiting(state: SessionState, around: Surroundings) -> bool:
    waits = state.waiting_for and state.waiting
    return bool(waits or around.waiting_for) or bool(_questions(state, around.closed))


def _escalations(state: SessionState, around: Surroundings) -> list[str]:
    """Return why a person must look before the work goes on.

    There are three reasons, and no other: the session was left waiting for an answer or an
    approval; one of its commits added a secret; another live session changed the same files.
    """
    reasons: list[str] = []
    if around.ended and _is_waiting(state, around):
        waits = state.waiting.text if state.waiting else around.waiting_for
        asked = _questions(state, around.closed) or [waits]
        reasons.append(f"a person has yet to answer: {prose(asked[0])}")
    reasons += [f"commit {secret}" for secret in around.committed_secrets[:NAMES_MAX]]
    if around.contested:
        reasons.append(listed("another live session changed the same files: ", around.contested))
    return [keep(reason, REASON_MAX) for reason in reasons]
