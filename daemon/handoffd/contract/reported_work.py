"""Separates the work that an assistant reported as done from mere announcements. Pure."""

import re

from handoffd.contract.prose import prose, same
from handoffd.session.state import Statement
from handoffd.session.text import sentences, weight

# A meaningful text has at least this many words of meaning.
MEANINGFUL_WORDS_MIN = 3
# A report that is shorter than this is extended by the end of the statement.
REPORT_MIN = 120
# A fragment without an end that is shorter than this is a heading.
FRAGMENT_MAX = 40

_ANNOUNCED = re.compile(
    r"(?i)(?:(?:now|next|then|first|finally|okay|ok|good|great|perfect|also)[,:.!]? +)*"
    r"(?:let me\b|let's\b|(?:i|we)(?:'ll| will|'m going|'re going|(?: still| also)? need)\b"
    r"|next\b|remaining\b|still\b|to ?do\b"
    r"|now (?:i|we|the next|add|check|commit|fix|push|re-?fetch|reply|run|test|update|verify)\b)"
)
# "I've added x", "Added x", "Handoff written to x".
_BEGUN = (
    r"\W*(?:(?:all|both|also|now|successfully|fully)\b[:, ]*)*(?:i(?:'ve| have) "
    r"(?:\w+ly |now |also )*(?:\w+(?:ed|en|ilt)|made|put|run|set)\b"
    r"|(?:added|built|changed|cleaned|closed|committed|created|deleted|deployed|documented|fixed"
    r"|implemented|installed|merged|migrated|moved|opened|ported|pushed|refactored|released"
    r"|removed|renamed|replaced|replied|rewrote|tested|updated|verified|wrote|written)\b"
    r"|\w+ (?:added|committed|created|deployed|merged|pushed|updated|written)\b)"
)
_BEGINNING = re.compile(rf"(?i){_BEGUN}")
_REPORTED = re.compile(
    r"(?i)\b(?:has|have) been (?:\w+ly )?\w{2,}(?:ed|en|ilt)\b"
    r"|\b(?:is|are) (?:now )?(?:\w+ly )?(?:complete|done|finished|fixed|committed|merged|pushed"
    r"|resolved|implemented|addressed|in place|green|clean)\b"
    r"|^\W*(?:\w+\W+){0,8}(?:complete|done|finished|fixed|resolved|addressed|verified)\b"
    r"|\btests? (?:\w+ )?pass|ました"
)
_DONE = re.compile(r"(?i)\W*(?:all )?(?:done|fixed)\b\s*[.!:]")
_LISTED = re.compile(
    rf"(?i)({_BEGUN}.*?)(?:,? (?:that|which) \w+|,? with(?: the following)?)?[:：]\Z"
)
_UNSURE = re.compile(
    r"(?i)\b(?:once|if|until|unless|should|would|could|might|will|need|needs|not|yet)\b|n't\b"
)
_OPENER = re.compile(
    r"(?i)\A(?:here(?:'s| is| are)\b[^:：]{0,80}[:：]\s*"
    r"|(?:\w+ )?summary(?: of \w+){0,2}[:：]?(?:\s+|\Z))+"
)
_EMPTY = re.compile(
    r"(?i)(?:i(?:'ve| have) (?:fully |successfully |now )*(?:completed|finished) |(?:all |the )+)"
    r"(?:\w+ )?(?:tasks?|work|changes|everything)(?: \w+){0,3}\W*\Z"
)


def report(said: Statement) -> str:
    """Return the work that a statement reports as done, in one line; empty if it names none."""
    parts, ending = _meaningful_sentences(said.opening.text), _meaningful_sentences(said.ending)
    reported = [*parts, *ending] if said.done else parts
    if not _DONE.match(said.opening.text) and not any(map(_is_report, reported)):
        return ""
    thin = said.done and weight(" ".join(parts)) < MEANINGFUL_WORDS_MIN
    if thin or len(" ".join(parts)) < REPORT_MIN:
        parts += [
            part
            for part in ending
            if (thin or _is_report(part)) and not any(same(part, known) for known in parts)
        ]
    line = prose(" ".join(parts))
    return line if weight(line) >= MEANINGFUL_WORDS_MIN else ""


def is_reported(line: str) -> bool:
    """Return True if a line reports finished work or is the heading of a summary."""
    return bool(_OPENER.fullmatch(line) or _is_report(line)) and not _ANNOUNCED.match(line)


def _meaningful_sentences(text: str) -> list[str]:
    """Return the sentences that are meaningful by themselves and announce nothing."""
    parts = [_OPENER.sub("", part) for part in sentences(text)]
    # The introduction of a list is kept as a sentence; the details follow it.
    parts = [_LISTED.sub(r"\1.", part) for part in parts]
    return [part for part in parts if weight(part) > 1 and _is_meaningful(part)]


def _is_meaningful(part: str) -> bool:
    if part.endswith((":", "：", "?", "？")) or _ANNOUNCED.match(part) or _EMPTY.match(part):
        return False
    return len(part) >= FRAGMENT_MAX or not part[-1].isalnum()


def _is_report(sentence: str) -> bool:
    if _BEGINNING.match(sentence):
        return True
    return bool(_REPORTED.search(sentence)) and not _UNSURE.search(sentence)
