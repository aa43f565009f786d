"""Read the assistant's statements: report, announcement, question, offer, theory, open work. Pure.

A statement is evidence for words, never for deeds: insights.py weighs it against the edits, the
tests and the commits.
"""

import re

from handoffd.redaction.redact import redact
from handoffd.session.injected import is_echo
from handoffd.session.state import STATEMENTS_MAX, Receipt, SessionState, Statement, Value
from handoffd.session.text import (
    NOW_MAX,
    OPEN_WORK,
    clean,
    ending,
    joined,
    keep,
    opening,
    plain,
    sentences,
    weight,
)

_STEPS_MAX = 5
_HEARD_MAX = 16 << 10
_CLOSING_READ = 3000
_STEP_MIN = 2
_THIN_QUESTION = 32
# A question to the person stands in the last sentences of a statement.
_CLOSING_SENTENCES, _QUESTION_SENTENCES = 3, 6
_LEFT_SENTENCES = 4
# The work is reported done at the beginning of a statement.
_DONE_WITHIN = 400
_COLONS = (":", "：")
_QUESTION_MARKS = ("?", "？")

# An announcement of work, in English; in other languages the colon at the end tells.
_INTENTION = re.compile(
    r"(?i)(?:(?:now|next|then|first|finally|okay|ok|good|great|perfect|right)[,:.!—-]* +)*"
    r"(?:let me(?! know)\b|let's\b|i'll\b(?! (?:leave|stop|wait|be))|i will\b|i'm (?:going to"
    r"|now)\b"
    r"|i am going to\b|i (?:still )?need to\b|we (?:still )?need to\b|moving on to\b|on to\b"
    r"|now (?:i|let|update|updating|add|adding|fix|fixing|run|running|the next|for the)\b"
    r"|i(?:'m)? (?:begin|start|starting|beginning)\b|starting (?:with|on|by)\b|proceeding\b"
    r"|continuing\b)"
)
# "It is marked, and I'll go on with the next one."
_GOES_ON = re.compile(r"(?i)\b(?:and|then|so) i(?:'ll| will) (?:now )?(?:go on|continue|proceed)\b")
# An announcement that depends on the person is an offer.
_CONDITION = re.compile(
    r"(?i)\b(?:if you|when you|once you|whenever you|after you|say the word|your (?:call|go-ahead)"
    r"|let me know|want me to|would you like|shall i|should i|do you want|happy to|up to you"
    r"|soll ich|möchtest du|istersen|onay verirsen)\b"
)
_OFFER = re.compile(
    r"(?i)\b(?:want me to|would you like me to|shall i\b|should i\b|do you want me to|happy to\b"
    r"|glad to\b"
    r"|i (?:can|could|would|'d|'ll|will)\b|i'd\b|i'll\b|say the word|next action is yours"
    r"|let me know if you(?:'d like| want) me"
    r"|ready to (?:push|commit|merge|open|proceed|go|ship|start|create|continue)|worth (?:running"
    r"|doing|a)\b"
    r"|soll ich|ich kann|istersen\b.*(?:rim|rım|rum|rüm)\b|onay verirsen|원하시면|如果你?需要"
    r"|よろしければ)"
)
# A step that is suggested to the person.
_SUGGESTION = re.compile(
    r"(?i)^\W*(?:(?:so|then|now|next|to \w+(?: \w+){0,4})[, ]+)*(?:try|re-?run|run|re-?start|open"
    r"|check|test|set|"
    r"install|use|pick|review|merge|push|decide)\b(?! (?:is|was|are|the tests? pass))"
    r"|\byou(?:'ll| will| can now| should| need to| may want| might want| have to)\b"
    r"|\bi'd (?:recommend|suggest)\b"
    r"|\bi (?:recommend|suggest)\b|\bworth (?:a|an|running|doing|checking|adding)\b|\bsay if\b"
    r"|\brecommended\b"
)
# An offer that names no work.
_POLITE = re.compile(
    r"(?i)(?:let me know if (?:you(?:'d like| want| need| have) )?(?:any|some|more|further|other|"
    r"questions|it|this|that|there)"
    r"|anything else|something else|what would you like|what(?:'s| is) next|need anything"
    r"|(?:can|may) i help|help (?:you )?with|hope (?:this|that) helps|feel free"
    r"|what do you (?:want|need)|how can i)"
)
# A question with alternatives waits for a decision, even if it is put as an offer.
_CHOICE = re.compile(r"(?i)\b(?:or|which|what|whether|how|where|who|when)\b|[12ab]\)|\b[A-C]/[A-C]")
_OFFERED = re.compile(
    r"(?i)\W*(?:so |and |then |ok(?:ay)?[, ]+)?(?:want me to|would you like me to"
    r"|do you want me to|ready (?:to|for)|happy to|möchtest du)\b"
)
_THEORY = re.compile(
    r"(?i)\b(?:i (?:suspect|think|believe|bet)\b|my (?:guess|theory|hypothesis)\b|hypothesis:"
    r"|the (?:root |likely |real |actual |underlying )?(?:cause|problem|issue|bug|culprit|reason)"
    r"(?: here)? (?:is|was|seems|may|might|must|could|appears|likely|probably)\b"
    r"|(?:probably|likely|presumably) (?:because|due|caused|a|an|the)\b|this suggests\b"
    r"|might be (?:because|due|caused)\b"
    r"|must be (?:because|due|caused)\b)"
)
_REFUTED = re.compile(
    r"(?i)\b(?:(?:that|this|it)(?:'s| is| was)(?: not|n't) (?:it|the (?:cause|problem|issue|bug))"
    r"|ruled? out|not the (?:cause|problem|issue|culprit)|turns? out\b|did(?: not|n't) help"
    r"|i was wrong|still (?:fails|failing|red|broken))"
)
_CONFIRMED = re.compile(
    r"(?i)\b(?:confirmed\b|fixed[:.]"
    r"|that was (?:it|the (?:cause|problem|issue|bug))|found (?:it|the (?:bug|"
    r"cause|problem|issue))|as (?:suspected|expected)\b|(?:is|are|it'?s) (?:now )?fixed\b"
    r"|(?:tests?|they|all|everything) (?:now )?(?:pass|passes|passed|works?)\b)"
)
_OPEN = re.compile(
    r"(?i)\b(?:not|if|once|whether|when|until|unless|yet|should|will|would|might|may)\b|n't\b|\?"
)
_DONE = re.compile(
    r"(?i)\b(?:done|completed?|finished|committed|pushed|merged|shipped|released|fixed)\b"
    r"|^\W*(?:(?:all|both|also|now|successfully|i(?:'ve| have))\b[:, ]*)*(?:added|built|changed"
    r"|cleaned|closed"
    r"|created|deleted|deployed|documented|implemented|installed|migrated|moved|opened|ported"
    r"|refactored|removed"
    r"|renamed|replaced|rewrote|updated|verified|wrote|written)\b"
    r"|\b(?:(?:has|have) been \w+(?:ed|en|ilt)\b"
    r"|all (?:\w+ )?(?:tests|checks) (?:are |now )*(?:pass|passing|green)|(?:all|fully|is"
    r"|are) (?:green|set|clean)\b"
    r"|successfully \w+ed|ready (?:for|to be) (?:review|merge))"
    r"|(?:完了|完成|끝났|완료|fertig|erledigt|terminé|listo|tamam|bitti|yayında)"
)
_NOT_DONE = re.compile(
    r"(?i)\b(?:not|once|when|if|until|unless|partially|nicht|noch)\b|n't\b|未|没|不|아직|않|ない"
    r"|まだ"
)
# Open work, said in a sentence.
_LEFT = re.compile(
    r"(?i)\b(?:still (?:needs?|to (?:do|be|come)|open|missing|outstanding|pending|left|has to"
    r"|have to|fails?|failing|says?|shows?|returns?|gives?|red|broken|running"
    r"|in (?:flight|progress))"
    r"|(?:(?:is|are|has|have|was|were)(?: not|n't)|not)(?: been)?(?: yet)? (?:done|committed"
    r"|pushed|merged|implemented|deployed|wired(?: up)?|fixed|migrated|finished|complete)"
    r"\b(?! (?:by|for|because|since|as|in|on|to)\b|,)"
    r"|(?:are|is) (?:now |still )?running\b|in flight\b|in the background\b|remains? (?:to be|open"
    r"|undone|unfinished)|remaining (?:work|tasks?|steps?|items?) (?:is|are)\b"
    r"|next(?: (?:up|steps?|action|phase|task))?(?: is\b|:)|left to do|to be done|waiting (?:for"
    r"|on)\b"
    r"|(?:is|are) (?:still )?missing\b|noch (?:offen|zu tun|nicht)|fehlt noch|sıradaki adım|henüz)"
    r"|未完成|还没|还未|尚未|没有完成|아직|않았|まだ|未着手"
)
_NOTHING_LEFT = re.compile(
    r"(?i)\b(?:no|nothing|none|zero|0|without|any)\b[^.]{0,30}\b(?:remain|left|outstanding|pending"
    r"|open"
    r"|next|to do)"
)
_STEPS = re.compile(rf"(?m){OPEN_WORK.pattern.removeprefix('(?i)')}[^\n]{{0,60}}$", re.IGNORECASE)
_ITEM = re.compile(r"^\s*(?:[-*•]|\d+[.)])\s+(?:\[ \]\s*)?(.+)$")
_TICKED = re.compile(r"^\s*(?:[-*•]|\d+[.)])\s+(?:\[[xX]\]|✅|✓|~~)")


def hear(state: SessionState, text: str, source: Receipt) -> None:
    """Take note of a statement; it is read when a value needs it."""
    state.unread.append((text[:_HEARD_MAX], source))
    state.last_read = None
    if len(state.unread) > STATEMENTS_MAX:
        del state.unread[0]


def statements(state: SessionState) -> list[Statement]:
    """Return the last statements; those that were not read yet are read now."""
    if state.unread:
        read = [_read(text, source, state.injected) for text, source in state.unread]
        state.statements = [*state.statements, *read][-STATEMENTS_MAX:]
        state.unread, state.last_read = [], None
    return state.statements


def last_answer(state: SessionState) -> Statement | None:
    """Return the last statement, of which only the part that matters at the end of a turn is read.

    Its opening is empty: reading all of it takes several times as long.
    """
    if state.unread:
        if state.last_read is None:
            text, source = state.unread[-1]
            state.last_read = _read_closing(text, source, state.injected)
        return state.last_read
    return state.statements[-1] if state.statements else None


def last_heard_time(state: SessionState) -> str:
    """Return the time of the last statement, or an empty text."""
    if state.unread:
        return state.unread[-1][1].time
    return state.statements[-1].opening.receipt.time if state.statements else ""


def _read(text: str, source: Receipt, injected: list[str]) -> Statement:
    closing = _read_closing(text, source, injected)
    prose = plain(redact(clean(text))[0])  # as a whole: a key is more than a line
    parts = [part for part in sentences(prose) if not is_echo(part, injected)]
    return closing._replace(
        opening=Value(keep(opening(parts), NOW_MAX), source),
        ending=_kept(ending(parts)),
        theory=_kept(_last_match(parts, _THEORY)),
        verdicts=_verdicts(parts),
    )


def _read_closing(text: str, source: Receipt, injected: list[str]) -> Statement:
    """Read the end of a statement, and whether its beginning reports finished work."""
    tail = text[-_CLOSING_READ:]
    if text[:-_CLOSING_READ].count("```") % 2:
        tail = f"```{tail}"
    tail = redact(clean(tail))[0]
    parts = [part for part in sentences(plain(tail)) if not is_echo(part, injected)]
    question, offer = _question_and_offer(parts)
    return Statement(
        Value("", source),
        intention=_kept(_intention(parts, tail)),
        question=_kept(question),
        offer=_kept(offer),
        done=_is_done(plain(text[: 2 * _DONE_WITHIN])),
        steps=tuple(_kept(step) for step in _steps(tail, parts) if not is_echo(step, injected)),
    )


def _kept(text: str) -> str:
    return keep(text, NOW_MAX) if text else ""


def _last_match(parts: list[str], pattern: re.Pattern[str]) -> str:
    return next((part for part in reversed(parts) if pattern.search(part)), "")


def _intention(parts: list[str], text: str) -> str:
    """Return the next step if the statement ends by announcing it.

    A statement that ends in a colon announces the call that follows it, in any language; a list or
    a block of code behind the colon is part of a report.
    """
    last = parts[-1] if parts else ""
    if last.endswith(_COLONS):
        return last.rstrip(":： ") + "." if text.rstrip("* \n").endswith(_COLONS) else ""
    announces = _INTENTION.match(last) or _GOES_ON.search(last)
    return last if announces and not _CONDITION.search(last) else ""


def _question_and_offer(parts: list[str]) -> tuple[str, str]:
    """Return the question that a statement leaves, and the offer; one of the two at most.

    An offer is further work of the assistant, or a step that it suggests to the person.
    """
    closing = [part for part in parts[-_QUESTION_SENTENCES:] if not _POLITE.search(part)]
    for number, part in reversed(list(enumerate(closing))):
        if part.endswith(_QUESTION_MARKS):
            # "Want me to do either?" is about the sentence before it.
            thin = len(part) < _THIN_QUESTION and weight(part) <= _STEP_MIN and number > 0
            said = joined(closing[number - 1], part) if thin else part
            offered = _OFFERED.match(part) and not _CHOICE.search(part)
            return ("", said) if offered else (said, "")
    for pattern in (_OFFER, _SUGGESTION):
        for part in reversed(closing[-_CLOSING_SENTENCES:]):
            fits = pattern.search(part) and (pattern is _SUGGESTION or _CONDITION.search(part))
            if fits and weight(part) >= _STEP_MIN:
                return "", part
    return "", ""


def is_offer(text: str) -> bool:
    """Return True for an offer of the assistant's own work, and False for a mere suggestion."""
    return text.endswith(("?", "？")) or bool(_OFFER.search(text))


def _is_done(prose: str) -> bool:
    """Return True if the first sentences report finished work."""
    return any(
        _DONE.search(part) and not _NOT_DONE.search(part)
        for part in sentences(prose[:_DONE_WITHIN])
    )


def _verdicts(parts: list[str]) -> tuple[tuple[bool, str], ...]:
    """Return the sentences that confirm or refute a theory."""
    found: list[tuple[bool, str]] = []
    for part in parts:
        if _REFUTED.search(part):
            found.append((False, _kept(part)))
        elif _CONFIRMED.search(part) and not _OPEN.search(part):
            found.append((True, _kept(part)))
    return tuple(found[-3:])


def _steps(text: str, parts: list[str]) -> list[str]:
    """Return the work that a statement calls unfinished: a list below a heading, or sentences."""
    listed = _listed_steps(text)
    if listed:
        return listed
    said = [
        part
        for part in parts[-_LEFT_SENTENCES:]
        if _LEFT.search(part)
        and not _NOTHING_LEFT.search(part)
        and not part.endswith((*_COLONS, *_QUESTION_MARKS))
        and not _CONDITION.search(part)
    ]
    return said[-2:]


def _listed_steps(text: str) -> list[str]:
    heads = list(_STEPS.finditer(text))
    if not heads:
        return []
    steps: list[str] = []
    for line in text[heads[-1].end() :].split("\n"):
        item = _ITEM.match(line)
        if item and not _TICKED.match(line):
            steps.append(plain(item[1]))
        elif item or (line.startswith(" ") and steps):
            continue
        elif line.strip() and steps:
            break
        elif line.strip():
            return []
    return [step for step in steps if weight(step) >= _STEP_MIN][:_STEPS_MAX]
