"""A person's requests, and the pieces of work that they begin. Pure.

The form of a sentence says little about it: deeds decide. A request that may begin another piece
of work does so when its first edit touches a file that the current work has not touched.
"""

import re

from handoffd.session import rules
from handoffd.session.state import (
    REQUESTS_MAX,
    UUID_KEPT,
    WORK_FILES_MAX,
    Receipt,
    Request,
    SessionState,
    Value,
    Work,
)
from handoffd.session.statements import last_answer
from handoffd.session.text import GOAL_MAX, weight, words_of

GO_ON_MAX = 40
NAMED_MAX = 8
# Several pieces of work share these branches.
COMMON_BRANCHES = frozenset({"main", "master", "develop", "dev", "trunk", "staging", "next"})
# The kinds of names that a piece of work may have, the best first.
PERSON, PLAN, RECAP, PULL_REQUEST, DOCUMENT, TITLE, COMMIT = (
    "person", "plan", "recap", "pull request", "document", "title", "commit",
)  # fmt: skip
# A request that says this little cannot be another task.
TASK_WEIGHT_MIN = 3
# A request that says this much stands by itself.
RICH = 8
# It is the same work as long as the request shares this much of its words with it.
SHARED_MOST = 0.3
_GO_ON = re.compile(
    r"(?i)(?:(?:hi|hello|hey|hallo|moin|merhaba|안녕하세요|你好|こんにちは|yes|yeah|yep|yup"
    r"|ok(?:ay)?|sure"
    r"|please|great|perfect|cool|thanks|thank you|and|then|good"
    r"|sounds good|lgtm|do it|do that|go|go on|go ahead|go for it|continue|proceed|carry on"
    r"|keep going|resume"
    r"|next|weiter|weitermachen|ja|genau|mach|mach weiter|bitte|oui|sí|vamos|devam|devam et|evet"
    r"|tamam"
    r"|let[’']?s go|schön|so|super|gut|passt|계속|계속해|계속해줘|진행|진행해|진행해줘|주세요|네"
    r"|예|응|좋아|继续|好的|好|是的|请继续"
    r"|はい|続けて|お願いします)[\s,.!…。]*)+\Z"
)
# "Continue until all are done" names nothing new.
_CONTINUED = re.compile(
    r"(?i)\W*(?:please )?(?:continue|keep going|carry on|go on|weiter(?:machen)?|devam)\b"
    r"(?: (?:until|till|from|where|with (?:that|this|it|the (?:rest|next|work)|what)|working|as"
    r"|bis)\b.*)?\Z"
)
_CONTINUING = re.compile(
    r"(?i)\b(?:continue|go on|go ahead|proceed|next|keep going|carry on|resume|weiter|devam)"
    r"|계속|진행|继续|続け"
)
# The person drops something at the beginning of a clause, in English or German: "forget the
# parser.". It is the current work if it is "that", or shares a word with the work.
_DROPPED = re.compile(
    r"(?i)(?:\A\W*|[.!?,;:—] +)"
    r"(?:(?:actually|ok(?:ay)?|no|wait|hmm|please|let'?s|just|and|so|then|bitte)[,.]? +){0,3}"
    r"(?:(?:forget(?: about)?|never ?mind|drop|scrap|abandon|cancel|skip|park|pause|shelve|postpone"
    r"|hold off(?: on| with)?|stop(?: working on| with)?|instead of|enough of|vergiss|lass)"
    r"(?: (?P<what>(?:the|den|die|das|dem|this|that|my|our) [^,.;:!?—\n]{2,40}?|that|this|it|das))?"
    r"(?: (?:for now|aside|on hold))?"
    r"|(?:leave|put|set|lay) (?P<left>(?:the|this|that|my|our) [^,.;:!?—\n]{2,40}?|that|this|it)"
    r" (?:for now|aside|on hold|away|be|as is|alone))"
    r"(?=[,.;:!—]| and\b| und\b| - )"
)
# Words that drop the current request wherever they stand.
_DROPS = re.compile(
    r"(?i)\b(?:change of plans?|change in plan|on second thought|was anderes|boş ?ver|vazgeç"
    r"|bırakıp)|等等|算了|先别管|先不管|先放一放|다른 (?:작업|일)|그만두고|그만하고|제쳐두고"
    r"|別の件|後回し"
)
_IT = frozenset({"", "that", "this", "it", "das"})
# The person calls the work off, and names no other.
_CALLED_OFF = re.compile(
    r"(?i)\W*(?:stop|no|nope|enough|that'?s (?:all|it|enough)|never ?mind|not now|later|nein|halt"
    r"|stopp"
    r"|(?:forget|cancel|drop|leave|skip|abort)(?: (?:that|it|this|everything|all(?: of (?:it"
    r"|that))?))?)\W*\Z"
)
# It says itself that it turns to another task.
_TURN = re.compile(
    r"(?i)\W*(?:(?:ok(?:ay)?|good|great|thanks|thank you|perfect|nice|fine|alright|that'?s (?:it"
    r"|done|fine|all)"
    r"|done(?: with that)?)[,.! ]+)*"
    r"(?:now |next |but |jetzt |nun |이제 )?(?:to |on to |let'?s |zu )?"
    r"(?:(?:do |try |for )?something (?:else|different|new|(?:more )?(?:urgent|important))"
    r"|(?:a |the )?(?:new|next|another|different|other) (?:task|topic|thing|request|feature|issue"
    r"|ticket|subject)"
    r"|(?:mov(?:e|ing)|turn(?:ing)?|switch(?:ing)?|get(?:ting)?) (?:on |over )?to|mov(?:e|ing) on"
    r"|neue aufgabe|(?:et)?was anderes|다른 작업|新任务|別の件|yeni görev)"
)
# It may turn to another task: what it shares with the current one decides.
_MAY_TURN = re.compile(
    r"(?i)\W*(?:(?:ok(?:ay)?|good|great|thanks|perfect|nice|fine|alright|please)[,.! ]+)*"
    r"(?:(?:and |so |then )?(?:(?:now|next|jetzt|nun|als nächstes|ahora|maintenant|şimdi"
    r"|이제|다음)\b|接下来|现在|次に)[,:，、]?"
    r"|let'?s (?:work on|do|look at|tackle|build|fix|add|start|make)\b|(?:can|could) (?:you"
    r"|we) now\b"
    r"|i (?:want|need|would like|'d like)(?: you)? to (?:work on|look at)\b|stop here\b)"
)
# It points back: "fix that", "the same for x". In "the form is slow, repair it" it does not.
_POINTS_BACK = re.compile(
    r"(?i)\b(?:(?P<near>it|its|them|they)|that|this(?! (?:fork|branch|session)\b)|these|those"
    r"|same|again|also|too|still|above|back|both|your|(?<!can )(?<!could )(?<!would )you|you're"
    r"|das(?! (?-i:[A-ZÄÖÜ]))|dies\w*|auch|nochmal|wieder|그거|이거|这个|那个)\b"
)
ASIDE_MAX = 20
BEGINNING = 80


def is_going_on(text: str) -> bool:
    """Return True for "go on", "yes please" and the like."""
    if len(text) > GO_ON_MAX:
        return False
    plain = " ".join(re.findall(r"[\w'’]+", text))
    if _GO_ON.match(plain) or _CONTINUED.match(plain):
        return True
    return weight(text) <= 1 and _points_back(text)  # "fix that please"


def _points_back(text: str) -> bool:
    """Return True if a text cannot be understood without what was said before it."""
    return any(
        not found["near"] or weight(text[: found.start()]) < TASK_WEIGHT_MIN
        for found in _POINTS_BACK.finditer(text)
    )


def is_continuing(text: str) -> bool:
    """Return True for "go on" and the like, but not for thanks or a mere yes."""
    return is_going_on(text) and bool(_CONTINUING.search(text))


def is_pointer(text: str) -> bool:
    """Return True if a request only points to a document, an issue or an earlier session."""
    return bool(_POINTER.match(text))


_POINTER = re.compile(
    r"(?i)\W*(?:(?:please|can you|could you|would you|hey|ok(?:ay)?|now)[, ]+)*"
    r"(?:(?:take a |have a )?look (?:at|into|in)|read|see|check(?: out)?|open|resume|continue"
    r"|pick up|load"
    r"|start (?:with|from|on)|work (?:on|through)|implement|fix|address|review|do)\b"
    r"[^.!?\n]{0,60}(?:https?://|#\d+|\b(?:issue|ticket|bead|epic|handoff|hand-?over|spec|plan"
    r"|doc(?:ument)?|notes|session)\b"
    r"|@?[\w./-]+\.(?:md|txt|rst|pdf)\b)"
)


_DOCUMENT = re.compile(
    r"(?i)\.(?:md|txt|rst|ya?ml)\Z|\bgh (?:issue|pr) view\b|\bgh api\b.*\b(?:issues|pulls)\b"
    r"|\bbd show\b"
)


def is_document(target: str) -> bool:
    """Return True for the path of a text, or a command that prints an issue."""
    return bool(_DOCUMENT.search(target))


def is_task(request: Request) -> bool:
    """Return True if a request can be understood without the conversation before it."""
    text = request.value.text
    return (
        not request.going_on
        and not request.command
        and weight(text) >= TASK_WEIGHT_MIN
        and not text.endswith(("?", "？"))
        and not _POINTS_BACK.search(text[:60])
        and not rules.are_all(text)
    )


def current(state: SessionState) -> Request | None:
    """Return the request that is worked on: the last one that asks for more than to go on."""
    for request in reversed(state.requests):
        if not request.going_on:
            return request
    return state.requests[-1] if state.requests else None


def end_turn(state: SessionState) -> None:
    """Note that the assistant has answered, if it spoke last and announced no further step."""
    if not state.spoke_last or not state.requests or state.requests[-1].answered:
        return
    said = last_answer(state)
    if said is None or not said.intention:
        for request in state.requests:
            request.answered = True


def withdraw(state: SessionState) -> None:
    """Forget the last request, which asked for a handoff; if it led to work, it is answered."""
    if not state.requests:
        return
    last = state.requests[-1]
    if last.edits or last.at <= state.committed_at or last.command:
        for request in state.requests:
            request.answered = True
        return
    start = last.value.receipt.offset
    state.requests.pop()
    if state.work and state.work.request.receipt.offset >= start:
        state.work = None
    state.unread = [item for item in state.unread if item[1].offset < start]
    state.statements = [item for item in state.statements if item.opening.receipt.offset < start]
    state.last_read, state.activity, state.activity_kept = None, None, True
    state.last_prompt = state.requests[-1].value if state.requests else None
    state.spoke_last = bool(state.requests) and state.requests[-1].answered


def enter(
    state: SessionState, value: Value, parent: str, at: int, *, command: bool = False
) -> Request:
    """Enter a request; it begins a piece of work if none has begun, or if it says so."""
    end_turn(state)
    said = last_answer(state) if state.spoke_last else None
    request = Request(value, parent[:UUID_KEPT], at, command=command)
    request.answers = (said.question or said.offer) if said else ""
    request.going_on = is_going_on(value.text) or not weight(value.text)
    if _CALLED_OFF.match(value.text):
        _drop_open_work(state)
        request.going_on = request.answered = True
    elif not request.going_on:
        _place(state, request, done=bool(said and said.done))
    state.requests.append(request)
    if len(state.requests) > REQUESTS_MAX:
        del state.requests[0]
    return request


def _place(state: SessionState, request: Request, *, done: bool) -> None:
    """Decide whether a request begins a piece of work, may begin one, or belongs to the current."""
    work, text = state.work, request.value.text
    if work is None or _says_little(work, request):
        begin(state, request.value)
    elif turned := _turned_to(text) or _dropped_for(state, text):
        _drop_open_work(state)
        request.value = Value(turned, request.value.receipt)
        begin(state, request.value)
    elif not request.answers and weight(text) >= TASK_WEIGHT_MIN:
        request.maybe_new = _may_be_new(state, text, done=done)


def _drop_open_work(state: SessionState) -> None:
    for request in state.requests:
        request.answered = True
    state.steps = []


def _says_little(work: Work, request: Request) -> bool:
    """Return True if the work has no goal yet, and a request states one."""
    said = weight(work.request.text)
    if work.edits or named(work) or said >= TASK_WEIGHT_MIN:
        return False
    return weight(request.value.text) > said


def _may_be_new(state: SessionState, text: str, *, done: bool) -> bool:
    """Return True if a request may be about something else than the current work."""
    if _on_own_branch(state) and not _changed_branch(state):
        return False
    settled = done or state.committed_at >= max(state.edited_at, 1) or _MAY_TURN.match(text)
    return bool(settled) and not _points_back(_beginning(text)) and not _shares(state, text)


def _beginning(text: str) -> str:
    """Return the words before a colon that name a subject, or the first words: "it" means it."""
    subject = text[:BEGINNING].partition(":")[0]
    return subject if weight(subject) > 1 else text[:BEGINNING]


def _on_own_branch(state: SessionState) -> bool:
    """Return True on a branch that was made for one piece of work."""
    return state.branch is not None and state.branch.text not in COMMON_BRANCHES


def _changed_branch(state: SessionState) -> bool:
    """Return True if the work has left the branch that was made for it."""
    began = state.work.branch if state.work else ""
    now = state.branch.text if state.branch else ""
    return bool(began and now) and began != now and began not in COMMON_BRANCHES


def _turned_to(text: str) -> str:
    """Return the task that a request turns to: "Now to something else: x" is about x."""
    turn = _TURN.match(text)
    if turn is None:
        return ""
    lead, _, rest = text[turn.end() :].partition(":")
    rest = rest.strip() if len(lead) <= ASIDE_MAX else ""
    return rest if weight(rest) > 1 else text if weight(text) >= TASK_WEIGHT_MIN else ""


def _dropped_for(state: SessionState, text: str) -> str:
    """Return the task for which a request drops the current one: "forget the parser, do x"."""
    for found in _DROPPED.finditer(text):
        what = (found["what"] or found["left"] or "").lower()
        rest = text[found.end() :].lstrip(" ,.;:!—-").removeprefix("and ").removeprefix("und ")
        if weight(rest) >= TASK_WEIGHT_MIN and (what in _IT or words_of(what) & _known(state)):
            return rest[:1].upper() + rest[1:]
    return text if _DROPS.search(text) and weight(text) >= TASK_WEIGHT_MIN else ""


def _known(state: SessionState) -> set[str]:
    """Return the words of the current work: its requests, its names and its files."""
    work = state.work
    known = words_of(" ".join(request.value.text for request in state.requests[-4:]))
    if work is not None:
        known |= words_of(work.request.text)
        known |= words_of(" ".join(value.text for value in work.names.values()))
        known |= {path.rsplit("/", 1)[-1].rsplit(".", 1)[0].lower() for path in work.files}
    return known


def _shares(state: SessionState, text: str) -> bool:
    """Return True if a request has words in common with the current work or the last answer."""
    known, words = _known(state), words_of(text)
    return len(words & known) > SHARED_MOST * max(1, min(len(words), len(known)))


def begin(state: SessionState, request: Value) -> None:
    """Begin a piece of work; the goal of the one before it is kept."""
    if state.work is not None and (state.work.edits or weight(state.work.request.text) > 1):
        state.previous_goal = state.work.names.get(PERSON) or state.work.request
    state.work = Work(request)
    state.aim_met, state.dropped = None, []


def note_edit(state: SessionState, path: str) -> None:
    """Count an edit for the current request; it may show that another piece of work has begun."""
    request = current(state)
    if request is not None:
        if request.maybe_new and state.work and path not in state.work.files:
            begin(state, request.value)
        request.maybe_new = False
        request.edits += 1
    if state.work is not None:
        state.work.edits += 1
        state.work.branch = state.branch.text if state.branch else ""
        if path not in state.work.files:
            state.work.files = [*state.work.files, path][-WORK_FILES_MAX:]


def name(state: SessionState, kind: str, value: Value) -> None:
    """Give the current work a name; a person's own name begins another piece of work."""
    if not value.text or (value.text in state.named and kind in (PERSON, PLAN)):
        return
    if kind in (PERSON, PLAN):
        state.named = [*state.named, value.text][-NAMED_MAX:]
        if state.work is not None and PERSON in state.work.names:
            begin(state, value)
    if state.work is None:
        state.work = Work(value)
    state.work.names[kind] = value


def named(work: Work) -> Value | None:
    """Return the best name that was given to a piece of work."""
    kinds = (PERSON, PLAN, RECAP, PULL_REQUEST, DOCUMENT, TITLE)
    return next((work.names[kind] for kind in kinds if kind in work.names), None)


def rewind(state: SessionState, parent: str) -> Receipt | None:
    """Return where a rewound branch began, if a request hangs where an earlier one did."""
    for request in state.requests:
        if request.parent == parent[:UUID_KEPT]:
            return request.value.receipt
    return None


def shown(request: Request, limit: int = GOAL_MAX) -> str:
    """Return a request as it is told: "yes" with the question that it answers."""
    text = request.value.text
    if request.answers and weight(text) < TASK_WEIGHT_MIN:
        return f"{request.answers} “{text}”"[:limit]
    return text
