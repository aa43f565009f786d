"""What follows from a session's evidence: goal, now, next, and the rest, each with its receipt.

Pure. A wrong value is worse than none: what nobody said and nothing shows is left out.
"""

from handoffd.session.file_ranking import HOT
from handoffd.session.state import File, SessionState, Statement, Todo, Value
from handoffd.session.statements import statements
from handoffd.session.text import shorten, weight
from handoffd.session.work import CIRCLES, activity

NEXT_MAX = 5
# A goal with fewer words of meaning is helped by a title; a request with fewer is only "go on".
RICH, FILLER = 8, 2
TITLED_MAX, ALONE_MAX, ASKED_MAX, SAID_MAX = 170, 200, 160, 100
# A list that nobody touched for so many requests is forgotten.
TODOS_SHOWN, TODOS_STALE = 3, 10
FILES_SHOWN, FILES_MIN = 20, 5


def _last(state: SessionState) -> Statement | None:
    heard = statements(state)
    return heard[-1] if heard else None


def _said(state: SessionState) -> Statement | None:
    """Return what was said last, if it was said since the last request."""
    asked = state.last_prompt.receipt.offset if state.last_prompt else -1
    return _last_telling(
        [said for said in statements(state) if said.opening.receipt.offset >= asked]
    )


def _last_telling(heard: list[Statement]) -> Statement | None:
    """Return the last statement; "You're welcome!" says less than what was said before it."""
    heard = [said for said in heard if said.opening.text]
    telling = (said for said in reversed(heard) if weight(said.opening.text) >= FILLER)
    return next(telling, heard[-1] if heard else None)


def is_aside(state: SessionState) -> bool:
    """Tell a session in which only something was asked, if that, and nothing was done."""
    asked = state.goal or state.last_prompt
    if asked is not None and not asked.text.endswith(("?", "？")):
        return False
    return not (state.edited_at or state.todos or state.checks or state.commits)


def has_begun(state: SessionState) -> bool:
    """Tell whether a session has said or done anything of its own yet."""
    return bool(statements(state)) or state.activity is not None or state.waiting is not None


def goal(state: SessionState) -> Value | None:
    """What the session is for; a title helps where the words of the request say little."""
    parts = goal_parts(state)
    if len(parts) > 1:
        text = f"{shorten(parts[0].text, TITLED_MAX).rstrip('. ')} ({parts[1].text})"
        return Value(text, parts[0].receipt._replace(evidence="inferred"))
    return parts[0] if parts else None


def goal_parts(state: SessionState) -> list[Value]:
    if state.goal is None:
        return [state.title] if state.title else []
    if weight(state.goal.text) >= RICH:
        return [state.goal]
    said = state.pull_request_title or state.title
    return [state.goal, said] if said else [state.goal]


def now(state: SessionState) -> Value | None:
    """What is being done, in a person's words: what was asked, what was said, what was done."""
    if state.waiting is not None:
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
    if state.waiting is not None:
        return [state.waiting]
    done = _activity(state)
    return [*_words_now(state), *([done] if done else [])]


def _activity(state: SessionState) -> Value | None:
    """Return what was done last, unless something was said on it since."""
    return None if state.spoke_last else activity(state)


def _words_now(state: SessionState) -> list[Value]:
    asked, said = state.last_prompt, _said(state)
    if asked is None or weight(asked.text) < FILLER:
        # "Go on" says nothing: what is gone on with was said before.
        if said is None or weight(said.opening.text) < FILLER:
            said = _last_telling(statements(state))
        return [_cut(said.opening, ALONE_MAX)] if said else [asked] if asked else []
    if said is None:
        return [_cut(asked, ALONE_MAX)]
    if state.goal and state.goal.text == asked.text:
        return [_cut(said.opening, ALONE_MAX)]  # it is said by the goal already
    return [_cut(asked, ASKED_MAX), _cut(said.opening, SAID_MAX)]


def _cut(value: Value, limit: int) -> Value:
    return Value(shorten(value.text, limit), value.receipt)


def upcoming(state: SessionState) -> list[Value]:
    """What comes next, the first thing first."""
    return _distinct([*_open_todos(state)[:TODOS_SHOWN], *state.pending, *_at_work(state)])[
        :NEXT_MAX
    ]


def _todos(state: SessionState) -> list[Todo]:
    return state.todos if state.todos_age < TODOS_STALE else []


def _open_todos(state: SessionState) -> list[Value]:
    wanted = ("in_progress", "pending")
    return [todo.value for status in wanted for todo in _todos(state) if todo.status == status]


def _at_work(state: SessionState) -> list[Value]:
    """Return the request that is not answered yet, and what was announced for it."""
    asked, said = state.last_prompt, _said(state)
    if is_answered(state):
        return [Value(step, said.opening.receipt) for step in said.steps] if said else []
    values, done = [], _activity(state)
    shown = state.spoke_last and _is_shown_done(state)
    if said and not done and (said.done or said.steps or (shown and said.intention)):
        left = said.steps or (said.intention,)
        return [Value(text, said.opening.receipt) for text in left if text]
    if asked and (done or weight(asked.text) >= FILLER):
        values.append(_going_on(asked, done))
    told = (said.ending, *said.steps) if said else ()
    if said is None and (said := _last(state)) and not values:
        told = (said.intention, *said.steps)  # "go on": with what was announced before
    if said:
        values += [Value(text, said.opening.receipt) for text in told if text]
    return values


def _going_on(asked: Value, activity: Value | None) -> Value:
    """Say what was asked for, and how far it is."""
    text = shorten(asked.text, ALONE_MAX)
    if activity is None:
        return Value(text, asked.receipt)
    return Value(f"{text} ({activity.text})", asked.receipt._replace(evidence="inferred"))


def is_answered(state: SessionState) -> bool:
    """Tell whether the assistant has said its piece on the last request, announcing no more."""
    said = _said(state)
    return said is not None and state.spoke_last and not said.intention


def _distinct(values: list[Value]) -> list[Value]:
    kept: dict[str, Value] = {}
    for value in values:
        kept.setdefault(value.text, value)
    return list(kept.values())


def hypothesis(state: SessionState) -> Value | None:
    """The last theory that was stated."""
    found = _theory(state)
    return Value(found.theory, found.opening.receipt) if found else None


def _theory(state: SessionState) -> Statement | None:
    return next((said for said in reversed(statements(state)) if said.theory), None)


def outcome(state: SessionState) -> Value | None:
    """What became of the theory: success, or what happened; none while it is open."""
    found = _theory(state)
    if found is None:
        return None
    heard = statements(state)
    if found.verdict == "success":
        return Value("success", found.opening.receipt._replace(evidence="inferred"))
    later = heard[heard.index(found) + 1 :]
    for said in later:
        if said.verdict:
            evidence = "inferred" if said.verdict == "success" else "quoted"
            return Value(said.verdict, said.opening.receipt._replace(evidence=evidence))
    return None


def status(state: SessionState) -> Value | None:
    """Whether the work goes on, waits for a person, or is done."""
    if state.waiting is not None:
        return Value("blocked", state.waiting.receipt.observed)
    last = _last(state)
    if last and state.spoke_last:
        if last.done and not last.intention and not last.steps and _seen_done(state):
            return Value("completed", last.opening.receipt._replace(evidence="inferred"))
        if last.question or (_is_red(state) and not last.intention):
            return Value("blocked", last.opening.receipt._replace(evidence="inferred"))
    base = last.opening if last else state.last_prompt
    return Value("in_progress", base.receipt.observed) if base else None


def _seen_done(state: SessionState) -> bool:
    """Tell whether something besides words shows that the work is done."""
    if any(not check.green for check in state.checks):
        return False
    if state.pending or _open_todos(state):
        return False
    if state.aim_met is not None:
        return state.aim_met
    return bool(_todos(state)) or _is_shown_done(state)


def _is_shown_done(state: SessionState) -> bool:
    """Tell whether the last edit was tested, or committed."""
    tested = any(check.green and check.at >= state.edited_at for check in state.checks)
    return tested or state.committed_at >= max(state.edited_at, 1)


def _is_red(state: SessionState) -> bool:
    """Tell whether the tests that ran last failed."""
    return bool(state.checks) and not max(state.checks, key=lambda check: check.at).green


def questions(state: SessionState) -> list[Value]:
    """The questions that a person has yet to answer."""
    if state.questions:
        return state.questions
    last = _last(state)
    if last and state.spoke_last and last.question:
        return [Value(last.question, last.opening.receipt)]
    return []


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
    ordered = sorted(state.checks, key=lambda check: -check.at)
    return [
        Value(
            f"{check.command}: {'green' if check.green else 'red'}, {check.summary}", check.receipt
        )
        for check in ordered
    ]


def files(state: SessionState) -> list[File]:
    """The files worked on, the most relevant first."""
    hot = [file for file in state.files if file.attention >= HOT]
    hot.sort(key=lambda file: (file.edits <= 0, -file.at))
    if len(hot) < FILES_MIN:
        # Soon after a compaction: what was edited before it is better than nothing.
        earlier = [file for file in state.files if file.edits > 0 and file not in hot]
        earlier.sort(key=lambda file: -file.at)
        hot += earlier[: FILES_MIN - len(hot)]
    return hot[:FILES_SHOWN]


def has_uncommitted_edit(state: SessionState, file: File) -> bool:
    """Tell a file that the session has changed since it last committed."""
    return file.edits > 0 and file.edited_at > state.committed_at
