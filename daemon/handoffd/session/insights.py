"""The values that follow from a session's evidence: goal, now, next and the rest. Pure.

Each value has its receipt. A wrong value is worse than none: a value that nobody stated and nothing
shows is left out.
"""

from collections.abc import Collection

from handoffd.session import checks, items, requests, steps
from handoffd.session.file_ranking import HOT
from handoffd.session.items import Item, ItemKey, item_of
from handoffd.session.state import (
    File,
    Receipt,
    Request,
    SessionState,
    Statement,
    Todo,
    Value,
    Work,
)
from handoffd.session.statements import statements
from handoffd.session.summary import read_recap
from handoffd.session.text import says_the_same, shorten, weight, whole_sentences, words_of
from handoffd.session.work import CIRCLES, activity

# The keys of the items that a person closed.
Closed = Collection[ItemKey]

NEXT_MAX, STEPS_FIRST = 5, 2
# A request with fewer words of meaning is only "go on".
FILLER = 2
NAME_MAX, REQUEST_MAX = 140, 150
ALONE_MAX, ASKED_MAX, SAID_MAX = 280, 140, 150
# A todo list that nobody touched for so many requests is forgotten.
TODOS_SHOWN, TODOS_STALE = 3, 10
FILES_SHOWN, FILES_MIN, NAMES_SHOWN = 20, 5, 3
# A verdict with so few words is about the theory before it.
ABOUT_WORDS = 2


def _last(state: SessionState) -> Statement | None:
    heard = statements(state)
    return heard[-1] if heard else None


def _said(state: SessionState) -> Statement | None:
    """Return the last statement that says something, if it was made since the last request."""
    asked = state.last_prompt.receipt.offset if state.last_prompt else -1
    return _last_telling(
        [said for said in statements(state) if said.opening.receipt.offset >= asked]
    )


def _last_telling(heard: list[Statement]) -> Statement | None:
    """Return the last statement; "You're welcome!" says less than the one before it."""
    heard = [said for said in heard if said.opening.text]
    telling = (said for said in reversed(heard) if weight(said.opening.text) >= FILLER)
    return next(telling, heard[-1] if heard else None)


def is_aside(state: SessionState) -> bool:
    """Return True for a session in which something was asked at most, and nothing was done."""
    asked = (state.work.request if state.work else None) or state.last_prompt
    if asked is not None and not asked.text.endswith(("?", "？")):
        return False
    return not (state.edited_at or state.todos or state.checks or state.commits)


def has_begun(state: SessionState) -> bool:
    """Return True if a session has said or done anything of its own yet."""
    return bool(statements(state)) or state.activity is not None or state.waiting is not None


# Goal


def goal(state: SessionState) -> Value | None:
    """Return the purpose of the current work: its name, and the request that it is about."""
    parts = goal_parts(state)
    if len(parts) > 1:
        text = f"{parts[0].text.rstrip('. ')} — {parts[1].text}"
        return Value(text, parts[0].receipt._replace(evidence="inferred"))
    return parts[0] if parts else None


def goal_parts(state: SessionState) -> list[Value]:
    work = state.work
    if work is None:
        return [state.title] if state.title else []
    asked, name = work.request, requests.named(work)
    latest = _latest_task(state, work)
    if requests.PERSON in work.names:
        head, tail = name or asked, None
    elif name is None or name.text == asked.text:
        head, tail = asked, latest or work.names.get(requests.COMMIT)
    else:
        head, tail = name, latest or (asked if weight(asked.text) >= FILLER else None)
    if tail is None or says_the_same(head.text, tail.text):
        return [_cut(max(head, tail or head, key=lambda value: weight(value.text)), ALONE_MAX)]
    if head is asked and len(state.requests) >= LONG:
        head, tail = tail, head
    return [_cut(head, NAME_MAX), _cut(tail, REQUEST_MAX)]


LONG = 6


def _latest_task(state: SessionState, work: Work) -> Value | None:
    """Return the last request of the work that led to edits, if it stands by itself."""
    for request in reversed(state.requests):
        if request.value.receipt.offset <= work.request.receipt.offset:
            break
        if request.edits and requests.is_task(request):
            return request.value
    return None


# Now


def now(state: SessionState) -> Value | None:
    """Return where the work stands: what was asked, what was said of it, what is being done."""
    if state.waiting is not None and not _is_stopped(state):
        return state.waiting
    words, done = _words_now(state), _activity(state)
    if not words:
        return done
    text = " — ".join(value.text for value in words)
    whole = Value(f"{text} ({done.text})" if done else text, words[-1].receipt)
    if len(words) == 1 and not done:
        return whole
    return Value(whole.text, whole.receipt._replace(evidence="inferred"))


def now_parts(state: SessionState) -> list[Value]:
    if state.waiting is not None and not _is_stopped(state):
        return [state.waiting]
    done = _activity(state)
    return [*_words_now(state), *([done] if done else [])]


def _is_stopped(state: SessionState) -> bool:
    """Return True if the person interrupted the work."""
    return state.waiting is not None and state.waiting.text.startswith(STOPPED)


STOPPED = "Stopped by the person"


def _activity(state: SessionState) -> Value | None:
    """Return the last activity, unless a statement followed it."""
    if _is_stopped(state):
        return state.waiting
    return None if state.spoke_last else activity(state)


def _recap(state: SessionState) -> Value | None:
    """Return the client's recap, if nothing was asked or done since."""
    found = state.recap
    last = state.last_prompt.receipt.offset if state.last_prompt else -1
    said = _last(state)
    later = max(last, said.opening.receipt.offset if said else -1)
    return found if found and found.receipt.offset > later and not _activity(state) else None


def standing_recap(state: SessionState) -> Value | None:
    """Return the client's recap, if every later request only asked to go on."""
    asked, found = requests.current(state), state.recap
    if asked is None or found is None or asked.going_on:
        return found
    return found if found.receipt.offset > asked.value.receipt.offset else None


def _words_now(state: SessionState) -> list[Value]:
    asked, said = state.last_prompt, _said(state)
    if recap := _recap(state):
        return [_cut(recap, ALONE_MAX)]
    if asked is None or weight(asked.text) < FILLER:
        # "Go on" says nothing: the statement before it says what goes on.
        if said is None or weight(said.opening.text) < FILLER:
            said = _last_telling(statements(state))
        return [_cut(said.opening, ALONE_MAX)] if said else [asked] if asked else []
    if said is None:
        return [_cut(asked, ALONE_MAX)]
    goal_text = (goal(state) or asked).text
    if asked.text[:ASKED_MAX] in goal_text or _cut(asked, REQUEST_MAX).text in goal_text:
        return [_cut(said.opening, ALONE_MAX)]  # the goal says it already
    return [Value(shorten(asked.text, ASKED_MAX), asked.receipt), _cut(said.opening, SAID_MAX)]


def _cut(value: Value, limit: int) -> Value:
    return Value(whole_sentences(value.text, limit), value.receipt)


# Next


def upcoming(state: SessionState, closed: Closed = ()) -> list[Value]:
    """Return the values of the open items."""
    return [item.value for item in open_items(state, closed)]


def open_items(state: SessionState, closed: Closed = ()) -> list[Item]:
    """Return the open items, the most urgent first; none if nothing is left.

    `closed` has the keys of the items that a person closed.
    """
    planned = steps.open_steps(state, _last(state) if is_answered(state) else None)
    kinds = (
        (items.QUEUED, [value for value in state.queued if value.text]),
        (items.QUESTION, _asked(state)),
        (items.TODO, _open_todos(state)),
        (items.STEP, planned[:STEPS_FIRST]),
        (items.REQUEST, _in_flight(state)),
        (items.STEP, [*_announced(state), *planned[STEPS_FIRST:]]),
        (items.FIX, _fixes(state)),
    )
    found: list[Item] = []
    hidden: list[str] = []
    for kind, values in kinds:
        named = [item_of(kind, state.session_id, value) for value in values]
        hidden += [item.value.text for item in named if item.key in closed]
        most = TODOS_SHOWN if kind == items.TODO else len(named)
        found += [item for item in named if item.key not in closed][:most]
    left = [item for item in _distinct(found) if not _is_hidden(item, hidden)]
    return _with_activity(state, left[:NEXT_MAX])


def _is_hidden(item: Item, closed: list[str]) -> bool:
    """Return True if an item says the same as a closed one; a person's own words stay."""
    if item.kind in (items.QUEUED, items.REQUEST):
        return False
    return any(says_the_same(item.value.text, text) for text in closed)


def _todos(state: SessionState) -> list[Todo]:
    return state.todos if state.todos_age < TODOS_STALE else []


def _open_todos(state: SessionState) -> list[Value]:
    wanted = ("in_progress", "pending")
    return [todo.value for status in wanted for todo in _todos(state) if todo.status == status]


def _in_flight(state: SessionState) -> list[Value]:
    """Return the requests that are not answered yet."""
    if is_answered(state):
        return []
    found: list[Value] = []
    for request in _unanswered(state):
        text = whole_sentences(requests.shown(request), ALONE_MAX)
        if weight(text) and (request.answers or not request.going_on):
            found.append(Value(text, request.value.receipt))
    return found[:2]


def _with_activity(state: SessionState, listed: list[Item]) -> list[Item]:
    """Return the items, the last request with its activity, which is no part of its key."""
    done = None if _is_stopped(state) else _activity(state)
    last = _in_flight(state)[:1]
    at = next((n for n, item in enumerate(listed) if [item.value] == last), None)
    if done and at is not None:
        text, receipt = listed[at].value
        text = f"{whole_sentences(text, ALONE_MAX - len(done.text))} ({done.text})"
        value = Value(text, receipt._replace(evidence="inferred"))
        listed[at] = listed[at]._replace(value=value)
    return listed


def _asked(state: SessionState) -> list[Value]:
    """Return the question that the work waits for."""
    return [_to_answer(value) for value in questions(state)][:1]


def _to_answer(question: Value) -> Value:
    return Value(f"Answer: {question.text}", question.receipt)


def _unanswered(state: SessionState) -> list[Request]:
    """Return the open requests, the latest first."""
    return [request for request in reversed(state.requests) if not request.answered]


def _announced(state: SessionState) -> list[Value]:
    """Return the announced next step, and the work that the last answer calls unfinished."""
    said = _said(state)
    if said is None and state.requests and state.requests[-1].going_on:
        said = _last(state)  # "go on": with the step that was announced before
    if said is None:
        return []
    if is_answered(state):
        recap = _recap(state)
        if recap:
            return [Value(text, recap.receipt) for text in read_recap(recap.text)[1]]
        return [Value(text, said.opening.receipt) for text in said.steps]
    told = [said.intention] if said.intention else []
    return [Value(text, said.opening.receipt) for text in [*told, *said.steps]]


def _fixes(state: SessionState) -> list[Value]:
    """Return the last red test since the last commit; another test may have run since."""
    red = [item for item in state.checks if not item.green and item.at > state.committed_at]
    last = max(red, key=lambda check: check.at, default=None)
    if last is None:
        return []
    if last.at >= max(check.at for check in state.checks):
        return [Value(f"{FIX}{last.command} is red ({last.summary})", last.receipt)]
    text = f"Run {last.command} again: it was red ({last.summary}), and did not run since"
    return [Value(text, last.receipt)]


FIX = "Fix: "


def is_answered(state: SessionState) -> bool:
    """Return True if the assistant has ended its turn and announces no further step."""
    said = _said(state)
    return said is not None and state.spoke_last and not said.intention


def _distinct(found: list[Item]) -> list[Item]:
    """Return the items without those that say the same as an earlier one."""
    kept: list[Item] = []
    for item in found:
        text = item.value.text
        if text and not any(says_the_same(text, known.value.text) for known in kept):
            kept.append(item)
    return kept


# Hypothesis and outcome


def hypothesis(state: SessionState) -> Value | None:
    """Return the last theory that was stated."""
    found = _theory(state)
    return Value(found.theory, found.opening.receipt) if found else None


def _theory(state: SessionState) -> Statement | None:
    return next((said for said in reversed(statements(state)) if said.theory), None)


def outcome(state: SessionState) -> Value | None:
    """Return how the theory ended: success, or the words that refute it; none while it is open."""
    found = _theory(state)
    if found is None:
        return None
    heard = statements(state)
    for said in heard[heard.index(found) :]:
        verdicts = [(held, text) for held, text in said.verdicts if held or text != found.theory]
        best = max(verdicts, key=lambda verdict: _nearness(verdict[1], found.theory), default=None)
        if best and _nearness(best[1], found.theory):
            return _verdict(state, *best, said.opening.receipt)
    return None


def _verdict(state: SessionState, confirmed: bool, text: str, receipt: Receipt) -> Value | None:
    if not confirmed:
        return Value(text, receipt)
    # "It works" beside a red test misleads.
    return None if checks.is_red(state) else Value("success", receipt._replace(evidence="inferred"))


def _nearness(text: str, theory: str) -> int:
    """Return how near a verdict is to a theory: the words they share; "that was it" is near."""
    words = words_of(text)
    return len(words & words_of(theory)) or (1 if len(words) <= ABOUT_WORDS else 0)


# Status


def status(state: SessionState, closed: Closed = ()) -> Value | None:
    """Return whether the work goes on, waits for a person, or is done."""
    if state.waiting is not None and not _is_stopped(state):
        return Value("blocked", state.waiting.receipt.observed)
    last = _last(state)
    if last and state.spoke_last and state.waiting is None:
        inferred = last.opening.receipt._replace(evidence="inferred")
        asked = last.question and questions(state, closed)
        if asked or last.offer.endswith(("?", "？")):
            return Value("blocked", inferred)
        if _is_finished(state, last, closed):
            return Value("completed", inferred)
    base = last.opening if last else state.last_prompt
    return Value("in_progress", base.receipt.observed) if base else None


def _is_finished(state: SessionState, last: Statement, closed: Closed) -> bool:
    """Return True if something was asked for, and nothing of it is open."""
    asked = any(not request.going_on for request in state.requests) or state.edited_at
    announced = Value(last.intention, last.opening.receipt)
    goes_on = last.intention and item_of(items.STEP, state.session_id, announced).key not in closed
    left = goes_on or upcoming(state, closed)
    return bool(asked) and not left and state.aim_met is not False


def questions(state: SessionState, closed: Closed = ()) -> list[Value]:
    """Return the questions that a person has yet to answer."""
    found, last = state.questions, _last(state)
    if not found and last and state.spoke_last and last.question:
        found = [Value(last.question, last.opening.receipt)]
    named = [item_of(items.QUESTION, state.session_id, _to_answer(value)) for value in found]
    return [value for value, item in zip(found, named, strict=True) if item.key not in closed]


def offers(state: SessionState, closed: Closed = (), *, clean: bool = False) -> list[Value]:
    """Return the further work that was offered, and the step that a finished change waits for.

    They keep nothing open: the person may take them up. `clean`: git has no changed file.
    """
    last = _last(state)
    if last is None or not is_answered(state) or last.question:
        return []
    found = [Value(last.offer, last.opening.receipt)] if last.offer else []
    text = _follow_up(state, clean=clean) if not upcoming(state, closed) else ""
    if text and not (found and words_of(found[0].text) & {"commit", "push", "merge"}):
        found.append(Value(text, last.opening.receipt._replace(evidence="inferred")))
    return found


def _follow_up(state: SessionState, *, clean: bool) -> str:
    """Return the question whether to commit or to push, by the deeds so far."""
    if any("commit" in words_of(value.text) for value in (*state.rules, *state.decisions)):
        return ""  # the person has said how it is done
    changed = [file for file in state.files if has_uncommitted_edit(state, file)]
    if changed:
        return "" if clean else _commit_question(changed)
    if not state.commits or state.branch is None or state.pushed_at >= state.committed_at:
        return ""
    own = state.branch.text not in requests.COMMON_BRANCHES
    also = " and open a pull request" if own and not state.pull_requests else ""
    ask = f"Push {state.branch.text}{also}? The last commit is only local."
    return ask if own or state.pushed_at else ""


def _commit_question(changed: list[File]) -> str:
    changed.sort(key=lambda file: -file.edited_at)
    names = ", ".join(file.path.rsplit("/", 1)[-1] for file in changed[:NAMES_SHOWN])
    more = f" and {len(changed) - NAMES_SHOWN} more" if len(changed) > NAMES_SHOWN else ""
    return f"Commit the changes of {names}{more}? They are not committed yet."


def dead_ends(state: SessionState) -> list[Value]:
    """What led nowhere: commands that fail again and again, and what was noted on the way."""
    circles = [
        Value(f"{item.command} failed {item.count} times: {item.error.text}", item.error.receipt)
        for item in state.failures
        if item.count >= CIRCLES
    ]
    return [*state.dead_ends, *circles]


def tests(state: SessionState) -> list[Value]:
    """The last result of each test command, the latest first."""
    return checks.tests(state)


def files(state: SessionState) -> list[File]:
    """Return the files worked on, the most relevant first; a short list is filled with others."""
    hot = [file for file in state.files if file.attention >= HOT]
    hot.sort(key=lambda file: (file.edits <= 0, -file.at))
    if len(hot) < FILES_MIN:
        others = [file for file in state.files if 0 < file.attention < HOT]
        others.sort(key=lambda file: (file.edits <= 0, -file.at))
        hot += others[: FILES_MIN - len(hot)]
    return hot[:FILES_SHOWN]


def has_uncommitted_edit(state: SessionState, file: File) -> bool:
    """Tell a file that the session has changed since it last committed."""
    return file.edits > 0 and file.edited_at > state.committed_at
