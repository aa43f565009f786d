"""What an assistant says: how it begins, what it announces, supposes, asks and calls done. Pure."""

import re

from handoffd.redaction.redact import redact
from handoffd.session.injected import is_echo
from handoffd.session.state import STATEMENTS_MAX, Receipt, SessionState, Statement, Value
from handoffd.session.text import NOW_MAX, clean, ending, keep, opening, plain, sentences

_STEPS_MAX = 5
_HEARD_MAX = 16 << 10
# How an assistant announces work; in other languages the prompt and the todos must do.
_INTENTION = re.compile(
    r"(?i)(?:(?:now|next|then|first|finally|okay|ok|good|great|perfect)[,:.]? +)*"
    r"(?:let me|let's|i'll|i will|i'm going to|i am going to|i (?:still )?need|we (?:still )?need"
    r"|next(?: step)?s?[:,]|now (?:i|let|update|add|fix|run|the next)|remaining[: ])"
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
    r"(?i)\b(?:done|complete|completed|finished)\b"
    r"|\b(?:(?:has|have) been (?:implemented|added|fixed|updated|created|removed|merged"
    r"|committed)\b"
    r"|all (?:\d+ )?tests (?:are )?(?:pass|passing|green)|successfully (?:implemented|added|fixed|"
    r"updated|created|completed|committed)|ready (?:for|to be) (?:review|merge))"
    r"|(?:完了|完成|끝났|완료|fertig|erledigt|terminé|listo)"
)
# Every match of it has one of these.
_DONE_WORDS = (
    "done", "complete", "finished", " been ", "tests ", "successfully ", "ready ", "完了", "完成",
    "끝났", "완료", "fertig", "erledigt", "terminé", "listo",
)  # fmt: skip
_NOT_DONE = re.compile(
    r"(?i)\b(?:not (?:yet )?(?:done|complete|finished)|(?:once|when) .{0,40}\b(?:done|complete)"
    r"|incomplete|partially|missing|still|remains?|remaining|yet|nicht|noch|fehlt)\b"
    r"|未|没|不|아직|않|ない|まだ"
)
_STEPS = re.compile(
    r"(?im)^[^\w\n]{0,8}(?:next steps?|remaining(?: work| tasks| steps)?|still to do|to ?do"
    r"|what'?s (?:next|left)|left to do)\b[^\n]{0,60}$"
)
_ITEM = re.compile(r"^\s*(?:[-*•]|\d+[.)])\s+(?:\[ \]\s*)?(.+)$")


def hear(state: SessionState, text: str, source: Receipt) -> None:
    """Take note of a statement; it is read when somebody asks."""
    state.unread.append((text[:_HEARD_MAX], source))
    if len(state.unread) > STATEMENTS_MAX:
        del state.unread[0]


def statements(state: SessionState) -> list[Statement]:
    """Return the last statements, reading those that were not read yet."""
    if state.unread:
        read = [_read(text, source, state.injected) for text, source in state.unread]
        state.statements = [*state.statements, *read][-STATEMENTS_MAX:]
        state.unread = []
    return state.statements


def last_heard_time(state: SessionState) -> str:
    """Return when the last statement was made, or an empty text."""
    if state.unread:
        return state.unread[-1][1].time
    return state.statements[-1].opening.receipt.time if state.statements else ""


def is_last_done(state: SessionState) -> bool:
    """Tell whether the last statement called something done, without reading the others."""
    if state.unread:
        return _is_done(plain(_masked(state.unread[-1][0])))
    return bool(state.statements) and state.statements[-1].done


def _masked(text: str) -> str:
    """Mask a statement as a whole: a key is more than a line."""
    return redact(clean(text))[0]


def _is_done(prose: str) -> bool:
    # Most texts have none of these words, which are found much sooner than the pattern fails.
    low = prose.lower()
    if not any(word in low for word in _DONE_WORDS):
        return False
    return bool(_DONE.search(prose)) and not _NOT_DONE.search(prose)


def _read(text: str, source: Receipt, injected: list[str]) -> Statement:
    text = _masked(text)
    prose = plain(text)
    parts = [part for part in sentences(prose) if not is_echo(part, injected)]
    return Statement(
        Value(keep(opening(parts), NOW_MAX), source),
        ending=_kept(ending(parts)),
        intention=_kept(last_match(parts, _INTENTION, colon=True)),
        theory=_kept(last_match(parts, _THEORY)),
        verdict=_kept(_verdict(parts)),
        question=_kept(_question(parts)),
        done=_is_done(prose),
        steps=tuple(_kept(step) for step in _steps(text) if not is_echo(step, injected)),
    )


def _kept(text: str) -> str:
    return keep(text, NOW_MAX) if text else ""


def last_match(parts: list[str], pattern: re.Pattern[str], *, colon: bool = False) -> str:
    """Return the last sentence of a kind.

    One that ends in a colon announces what follows it, in any language.
    """
    for part in reversed(parts):
        if pattern.match(part) if colon else pattern.search(part):
            return part
        if colon and part.endswith((":", "：")):
            return part
    return ""


def _verdict(parts: list[str]) -> str:
    """Return how a theory ended: refuted with what was said, or success."""
    refuted = next((part for part in parts if _REFUTED.search(part)), "")
    confirmed = any(_CONFIRMED.search(part) and not _OPEN.search(part) for part in parts)
    return refuted or ("success" if confirmed else "")


def _question(parts: list[str]) -> str:
    """Return the question that a statement ends with: the person is to answer."""
    return parts[-1] if parts and parts[-1].endswith(("?", "？")) else ""


def _steps(text: str) -> list[str]:
    """Return the items of a list of what is left to do."""
    head = _STEPS.search(text)
    if head is None:
        return []
    steps: list[str] = []
    for line in text[head.end() :].split("\n"):
        item = _ITEM.match(line)
        if item:
            steps.append(plain(item[1]))
        elif line.strip() and steps:
            break
        elif line.strip():
            return []
    return steps[:_STEPS_MAX]
