"""What a session is for, and when that changes. Pure."""

import re

from handoffd.session.injected import is_echo
from handoffd.session.state import SessionState, Value
from handoffd.session.statements import is_last_done
from handoffd.session.text import weight, words_of

# A prompt shorter than this asks to go on; it states no goal. Scripts without spaces say
# more in a character, so they are counted by character.
WORDS_MIN = 4
CHARACTERS_MIN = 8
SAYING = 2
ASIDE_MAX = 20
GO_ON_MAX = 25
NAMED_MAX = 8
# Kana, Chinese and Hangul begin here.
FIRST_WITHOUT_SPACES = "\u3040"
_GO_ON = re.compile(
    r"(?i)\W*(?:yes|yeah|ok(?:ay)?|sure|go on|go ahead|continue|weiter|ja\b|genau|mach|oui|sí\b"
    r"|계속|진행|네\b|예\b|좋아|继续|好的|是的|はい|続け)"
)
# A request that says this much may be another task, with or without saying that it is one.
TURN_WEIGHT_MIN, TASK_WEIGHT_MIN = 4, 8
# It is the same task as long as they share this much of the shorter one.
SHARED_MOST = 0.3
# And the same goal in other words with this much.
SAME = 0.6
_AGREEING = r"(?:ok(?:ay)?|good|great|thanks|thank you|perfect|nice|fine|done)"
_TURN = re.compile(
    rf"(?i)\W*(?:{_AGREEING}[,.! ]+)*(?:now |next |but |jetzt |nun |이제 )?"
    r"(?:to |on to |let'?s |zu )?"
    r"(?:(?:do |try |for )?something (?:else|different|new)"
    r"|(?:a |the )?(?:new|next|another|different) (?:task|topic|thing|request|feature)"
    r"|mov(?:e|ing) on|switch(?:ing)? to|forget (?:that|it|about)"
    r"|neue aufgabe|(?:et)?was anderes|다른 작업|新任务|別の件)"
)
_TASK = re.compile(
    rf"(?i)\W*(?:(?:{_AGREEING}|please|then)[,.! ]+)*"
    r"(?P<turn>(?:and |so )?(?:now|next|jetzt|nun|als nächstes|ahora|maintenant|이제|다음|接下来"
    r"|现在|次に)[,:]? ?)?"
    r"(?:(?:can|could|would) you |i(?:'d| would)? (?:want|need|like) (?:you )?to |let'?s )?"
    r"(?:please )?(?:implement|add|create|build|write|fix(?! up)|repair|refactor|rewrite|migrate"
    r"|port|replace|remove|design|develop|introduce|convert|move|set up|make|optimi[sz]e|integrate"
    r"|support|upgrade|update|find out|investigate|extend|export|import|rename|document|deploy"
    r"|baue?|schreibe?|repariere?|ergänze?|füge?)\b"
)


def is_going_on(text: str) -> bool:
    """Tell "go on" from a request of its own."""
    return bool(_GO_ON.match(text)) and len(text) < GO_ON_MAX


def is_substantial(text: str) -> bool:
    if weight(text) < SAYING or is_going_on(text):
        return False
    if len(text.split()) >= WORDS_MIN or _TASK.match(text):
        return True  # also "fix login bug"
    return sum(letter >= FIRST_WITHOUT_SPACES for letter in text) >= CHARACTERS_MIN


def aim_at(state: SessionState, goal: Value) -> None:
    """Set the goal; another one before it is kept."""
    if not goal.text or (state.goal and state.goal.text == goal.text):
        return
    if is_echo(goal.text, state.injected):
        return
    state.aim_met = None
    if state.goal is not None and not _share(state.goal.text, goal.text, SAME):
        state.previous_goal = state.goal
    state.goal = goal


def _share(one: str, other: str, least: float) -> bool:
    """Tell whether two texts have more than this much of the shorter one in common."""
    mine, known = words_of(one), words_of(other)
    return len(mine & known) > least * min(len(mine), len(known))


def name(state: SessionState, goal: Value) -> None:
    """Take a title, a plan or a given goal for the goal, once: clients repeat them for ever."""
    if goal.text and goal.text not in state.named:
        state.named = [*state.named, goal.text][-NAMED_MAX:]
        aim_at(state, goal)


def follow(state: SessionState, request: Value) -> None:
    """Take a request for the goal, if there is none yet or if it begins another task."""
    if not is_substantial(request.text) or is_echo(request.text, state.injected):
        return
    if state.goal is None or _changes_course(state, state.goal, request):
        # "Now to something else: x" is about x.
        turn = _TURN.match(request.text)
        rest = request.text[turn.end() :].partition(":") if turn else ("", "", "")
        said = rest[2].strip() if len(rest[0]) <= ASIDE_MAX else ""
        aim_at(state, Value(said, request.receipt) if said else request)


def _changes_course(state: SessionState, goal: Value, request: Value) -> bool:
    """Tell another task from a step of this one.

    It says a lot, has little in common with the goal, and follows on work that was said to be
    done or says itself that it turns to something else.
    """
    task = _TASK.match(request.text)
    turns = bool(task and task["turn"]) or bool(_TURN.match(request.text))
    if not turns and (task is None or not (state.spoke_last and is_last_done(state))):
        return False
    if weight(request.text) < (TURN_WEIGHT_MIN if turns else TASK_WEIGHT_MIN):
        return False
    return not _share(request.text, goal.text, SHARED_MOST)
