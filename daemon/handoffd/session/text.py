"""Text of a transcript made fit to be kept: one line, no controls, no secrets, bounded."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from handoff.common.errors import HandoffValidationError
from handoff.common.plain_text import uncalled
from handoffd.redaction.redact import may_hold_secret, redact
from handoffd.session.fields import CLEARABLE

MASK = "[redacted:"

GOAL_MAX = 300
NOW_MAX = 300
RECAP_MAX = 600
OPENING_MIN = 160
HEADING_MAX = 60
ENDING_MIN = 200
STEPS_MAX = 5
BULLETS_MAX = 8
SAME_SHARE = 0.7
PATH_MAX = 400
SAVED_MAX = 2000

# More than any kept text, so that a secret is never cut in half before it is recognised.
_SCANNED_MAX = 8192
_READ_MAX = 8 * _SCANNED_MAX
# The first words of a prompt say what it asks for; what follows is often pasted.
_ASKED_MAX = 4096

# C0 and C1 controls, the bidirectional overrides and isolates, lone surrogates, and the
# Unicode tags that hide text from a person's eyes.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\ud800-\udfff"
    "\U000e0000-\U000e007f]"
)
_ESCAPES = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|.)")
_WORD = re.compile(r"\w{2,}")
_EMPTY = frozenset(
    {
        "the", "an", "of", "to", "and", "in", "for", "on", "with", "is", "are", "was", "were",
        "be", "been", "it", "this", "that", "we", "you", "as", "by", "or", "at", "from", "has",
        "have", "had", "not", "but", "so", "if", "then", "into", "their", "its", "they",
        "which", "will", "would", "can", "could", "do", "does", "did", "let", "me", "now",
        "all", "just", "also", "there", "what", "when", "how", "why", "should", "need", "want",
        "like", "please", "yes", "no", "ok", "okay", "here", "use", "using", "get", "got", "up",
        "out", "about", "some", "any", "more", "only", "one", "two", "see", "make", "sure",
        "new", "add", "us", "our", "your",
        "re", "ve", "ll", "don", "welcome", "thanks", "thank", "great", "good", "perfect",
    }
)  # fmt: skip
# A sentence may be cut before these and still be understood.
_CLAUSES = (
    ", ", "; ", " - ", " — ", ": ", " (", " and ", " or ", " but ", " because ", " so that ",
    " which ", " when ", " where ", " while ", " instead ", " und ", " oder ", " weil ", "、", "，",
)  # fmt: skip
_SENTENCE_END = re.compile(r"(?<=[.!?。！？])\s|\n")
# The heading of a list of work that is still to be done.
OPEN_WORK = re.compile(
    r"(?i)^[^\w\n]{0,8}(?:next steps?|next up|remaining(?: work| tasks| steps| items)?"
    r"|still (?:to do|open|left|pending)|to ?do|open (?:items|points|questions)|what'?s (?:next"
    r"|left)"
    r"|left to do|not (?:yet )?done|outstanding|follow-?ups?|nächste schritte|noch offen"
    r"|prochaines étapes|reste à faire|próximos pasos|sonraki adım(?:lar)?|kalan (?:işler|adımlar)"
    r"|yapılacaklar|다음 (?:단계|작업)|남은 (?:단계|작업)|할 일|下一步|后续步骤|待办"
    r"|剩余(?:工作|任务)|次のステップ|残りの作業)\b"
)
_CODE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_MARKS = re.compile(r"(?m)^[ \t]{0,16}(?:#{1,6}|[-*>]|\d{1,2}[.)])[ \t]+|\*\*|`")
# The end of a line without a full stop, before an item of a list.
_BEFORE_ITEM = re.compile(r"(?<=\w)(?=\n[ \t]{0,16}(?:[-*]|\d{1,2}[.)])[ \t])")
_NUMBERED = re.compile(r"\s{0,8}(?:#{1,4} )?(?:step )?\d{1,2}[.):] (.+)", re.IGNORECASE)
_BULLETED = re.compile(r"[-*] (.+)")
_PLAN_TITLE = re.compile(r"(?i)\A#*\s*(?:the |implementation )?plan(?: for)?\s*[:–—-]\s*")
# A line that a program wrote: a prompt with a command, a log's stamp or level, a quoted line, a
# frame of a stack, a diff.
_PASTED = re.compile(
    r"\s*(?:[❯›$>|+│├└]\s|--\w[\w-]*|PS [A-Z]:\\|[\w.-]+@[\w.-]+[:~ ]|\[?\d{4}[-/]\d\d[-/]\d\d"
    r"|\d\d:\d\d:\d\d|\[\w[\w:.-]*\]\s"
    r"|(?:INFO|WARN(?:ING)?|ERROR|DEBUG|FATAL|TRACE)\b|File \"|Traceback|at [\w$.<>]+\(|@@ "
    r"|diff --git|---\s*$"
    r"|(?:error|fatal|remote|hint|npm ERR!): )"
)
_PASTED_MIN, _PROSE_SHARE = 24, 0.6
_OWN_WEIGHT_MIN = 3
_CONTINUED_LINE = re.compile(r"[ \t]*\\[ \t]*\n")
_INTRODUCTION = re.compile(
    r"(?i)\A(?:\[image #\d+\]\s*|(?:hey|hi|hello)(?: claude)?[,!.]?\s+"
    r"|given (?:this|the following)(?: as)?(?: a)?(?: context)?\s*[:,]\s*)+"
)
_PLAN = re.compile(r"(?i)\Aimplement the following plan:?\s*")


def clean(text: str) -> str:
    """Drop what has no business in a document: escapes, controls, invisible characters."""
    return _UNSEEN.sub("", _ESCAPES.sub("", text))


def keep(text: str, limit: int) -> str:
    """Return the text as one safe line of at most `limit` characters, secrets masked."""
    # Most of what is kept is short and plain, and has nothing to be taken out.
    if not (text.isascii() and text.isprintable()):
        text = clean(text[:_READ_MAX])
    line = " ".join(text[:_READ_MAX].split())
    return shorten(redact(uncalled(line[:_SCANNED_MAX]))[0], limit)


def count_masks(text: str) -> int:
    """Return how many secrets were masked in a text."""
    return text.count(MASK)


def shorten(line: str, limit: int) -> str:
    if len(line) <= limit:
        return line
    cut = line[: limit - 1]
    space = cut.rfind(" ")
    return (cut[:space] if space > limit // 2 else cut).rstrip() + "…"


def plain(text: str) -> str:
    """Return a text as prose: without code blocks and the marks of headings, lists and stress."""
    return _MARKS.sub("", _CODE.sub(" ", text[:_READ_MAX]))


def request(text: str) -> str:
    """Return the words of a prompt that ask for something.

    The words that only introduce a plan, a greeting and pasted lines are left out; a prompt that
    holds nothing else is returned whole.
    """
    # In a terminal a person ends a line with a backslash.
    text = _CONTINUED_LINE.sub("\n", text[:_ASKED_MAX])
    read = _CODE.sub(" ", text)
    own = "\n".join(line for line in read.split("\n") if not is_pasted(line)).strip()
    if weight(own) < _OWN_WEIGHT_MIN:
        # "More reviews:" says nothing without them.
        pasted = _MARKS.sub("", text.replace("```", "")).strip()
        own = f"{own} {pasted}" if own and not pasted.startswith(own) else pasted
    whole = plain(_BEFORE_ITEM.sub(";", own)).strip()
    asked = _PLAN.sub("", whole)
    introduced = _INTRODUCTION.match(asked)
    if introduced and weight(asked[introduced.end() :]):
        asked = asked[introduced.end() :].strip()
        asked = asked[:1].upper() + asked[1:]
    return asked


def is_pasted(line: str) -> bool:
    """Return True for a line of a log, a terminal, a diff or a table."""
    if _PASTED.match(line):
        return True
    if len(line) < _PASTED_MIN:
        return False
    return sum(map(str.isalpha, line)) + line.count(" ") < _PROSE_SHARE * len(line)


def sentences(prose: str) -> list[str]:
    """Return the sentences of a text, without tables and tags."""
    parts = [part.strip() for part in _SENTENCE_END.split(prose)]
    return [part for part in parts if part and not part.startswith(("|", "<"))]


def joined(one: str, other: str) -> str:
    """Return two sentences as one text; an item of a list has no full stop of its own."""
    if not one or not other:
        return one or other
    return f"{one}; {other}" if one[-1].isalnum() else f"{one} {other}"


def opening(parts: list[str]) -> str:
    """Return the first sentences that carry a meaning: "Good." alone does not, nor a heading."""
    said = ""
    for part in parts:
        if part.endswith((":", "：")) and len(part) < HEADING_MAX and parts[-1] is not part:
            if OPEN_WORK.match(part):
                break  # the items below it are not done
            continue
        said = joined(said, part)
        if len(said) >= OPENING_MIN:
            break
    return said


def whole_sentences(text: str, limit: int) -> str:
    """Return the first sentences that fit; a longer first sentence ends at a clause."""
    if len(text) <= limit:
        return text
    cut = ""
    for part in sentences(text):
        longer = f"{cut} {part}" if cut else part
        if len(longer) > limit:
            break
        cut = longer
    if weight(cut) > 1:
        return cut
    clause = max(text.rfind(mark, limit // 2, limit) for mark in _CLAUSES)
    return text[:clause].rstrip(" ,;:-—(") if clause > 0 else shorten(text, limit)


def ending(parts: list[str]) -> str:
    """Return the last sentences: what was announced, or what came of it."""
    said = ""
    for part in reversed(parts):
        said = joined(part, said)
        if len(said) >= ENDING_MIN:
            break
    return said


def weight(text: str) -> int:
    """Return how much a text says: its different words, without those that only join others.

    Scripts without spaces say a word in two characters.
    """
    return sum(1 if word.isascii() else max(1, len(word) // 2) for word in words_of(text))


def words_of(text: str) -> set[str]:
    """Return the different words of a text that carry a meaning."""
    return set(_WORD.findall(text.lower())) - _EMPTY


def says_the_same(one: str, other: str) -> bool:
    """Return True if two texts share most of the shorter one's words."""
    mine, known = words_of(one), words_of(other)
    least = min(len(mine), len(known))
    return one == other or (least > 1 and len(mine & known) >= SAME_SHARE * least)


def heading(plan: str) -> str:
    """Return what a plan is about: its title, or its first sentence."""
    lines = [line.strip() for line in plan[:_READ_MAX].split("\n") if line.strip()]
    title = next((line for line in lines if line.startswith("#")), lines[0] if lines else "")
    return _PLAN_TITLE.sub("", plain(title).strip()).strip()


def plan_steps(plan: str) -> list[str]:
    """Return the first steps of a plan: its numbered items, or else a short list without numbers.

    A long list without numbers tells details.
    """
    lines = plan[:_READ_MAX].split("\n")
    for item, most in ((_NUMBERED, len(lines)), (_BULLETED, BULLETS_MAX)):
        steps = [plain(found[1]).strip() for line in lines if (found := item.match(line))]
        if 0 < len(steps) <= most:
            return steps[:STEPS_MAX]
    return []


@dataclass(frozen=True, slots=True)
class KeptValues:
    """A person's own words made fit to be kept; None clears an optional field."""

    values: dict[str, str | None]
    masked: int
    cut: bool


def keep_values(values: dict[str, str]) -> KeptValues:
    """Make a person's own words fit to be kept; they may be longer than what we extract."""
    kept: dict[str, str | None] = {}
    masked, cut = 0, False
    for name, value in values.items():
        text = keep(value, SAVED_MAX)
        if not text and name not in CLEARABLE:
            raise HandoffValidationError(f"Missing or empty required field: {name}")
        kept[name] = text or None
        masked += count_masks(text) - count_masks(value)
        cut = cut or len(value) > SAVED_MAX
    return KeptValues(kept, masked, cut)


def redact_values(value: Any) -> Any:
    """Mask the secrets in every text of a document, whatever its shape."""
    texts: list[str] = []

    # First what hides: an invisible character must not cut a token in two.
    def unhide(text: str) -> str:
        visible = text.isascii() and text.isprintable()
        texts.append(text if visible else _UNSEEN.sub("", text))
        return texts[-1]

    def note(name: str) -> str:
        texts.append(name)
        return name

    def mask(text: str) -> str:
        return redact(text)[0]

    seen = _each_text(value, unhide, note)
    return _each_text(seen, mask, mask) if may_hold_secret("\n".join(texts)) else seen


def _each_text(value: Any, change: Callable[[str], str], rename: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        found: dict[Any, Any] = {}
        for key, item in value.items():
            name = rename(key) if isinstance(key, str) else key
            while name in found:  # two that are masked alike stay two
                name = f"{name}'"
            found[name] = _each_text(item, change, rename)
        return found
    if isinstance(value, list):
        return [_each_text(item, change, rename) for item in value]
    return value
