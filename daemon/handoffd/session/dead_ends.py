"""What led nowhere, so that nobody tries it again. Pure."""

import re

from handoffd.session.state import DEAD_ENDS_MAX, Receipt, SessionState, Value
from handoffd.session.statements import statements
from handoffd.session.text import NOW_MAX, keep, shorten

QUOTED_MAX = 140
_REFUSAL = re.compile(
    r"(?i)\s*(?:no[,.!](?! (?:this|that|it)(?:'s| is) (?:fine|ok|good)| thanks| problem| worries)"
    r"|no (?:don'?t|do not|stop|not)\b|nope\b"
    r"|(?:please )?(?:stop|undo)(?: (?:that|this|it|doing)\b|[.!,]|$)"
    r"|(?:please )?(?:don'?t|do not) (?!forget|worry|hesitate|know|think|see|understand|have|get)\w"
    r"|that'?s (?:not (?:it|what|right|how)|wrong)\b|not like that\b|wrong[.!,]"
    r"|revert (?:that|this|it)\b|nein\b|non, |nicht so\b|아니[,.요 ]|하지 ?마"
    r"|不要|不是这样|别(?:这样|再|用|动|改)|やめて|違う)"
)


def note_refusal(state: SessionState, words: str, prompt: Value) -> None:
    """Keep an approach that a person turned down in so many words."""
    if not _REFUSAL.match(words[:80]) or not (heard := statements(state)):
        return
    proposed = shorten(heard[-1].opening.text, QUOTED_MAX)
    said = shorten(prompt.text, QUOTED_MAX)
    dead_end(state, f"Refused: “{said}” (after: {proposed})", prompt.receipt)


def dead_end(state: SessionState, text: str, source: Receipt) -> None:
    line = keep(text, NOW_MAX)
    if all(value.text != line for value in state.dead_ends):
        state.dead_ends.append(Value(line, source))
        del state.dead_ends[:-DEAD_ENDS_MAX]
