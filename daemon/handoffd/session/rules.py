"""What a person decides, forbids or insists on, in the person's own words. Pure."""

import re

from handoffd.session.state import DECISIONS_MAX, RULES_MAX, Receipt, SessionState, Value
from handoffd.session.text import is_pasted, keep, plain, sentences, weight

QUOTED_MAX = 200
# A rule is typed, not pasted: only the beginning of a long prompt is read.
READ_MAX = 1500
_RULE = re.compile(
    r"(?i)\W*(?:and |but |also |please |note:? |important:? |remember:? )*"
    r"(?:never(?! mind|theless| been| seen| had)\b|always\b|do(?: not|n'?t) ever\b|must (?:not"
    r"|never|always)\b"
    r"|under no circumstances|no matter what|from now on|going forward|only ever\b"
    r"|(?:do not|don'?t) (?:use|add|touch|change|modify|commit|push|edit|remove|delete|rename"
    r"|write|create|"
    r"introduce|mock|rely|break|put|run|install)\b"
    r"|no (?:new|external|additional|extra|third[- ]party) (?:dependenc|librar|package|framework"
    r"|file|table|column|flag|setting|option|class|comment)"
    r"|(?:(?!(?:es|das|er|sie|ich|wir)\b)\w+ )?(?:nie(?:mals)?|immer)\b"
    r"|auf keinen fall|절대|항상|반드시|不要|必须|禁止|绝不|永远|asla\b"
    r"|her zaman\b"
    r"|絶対に|必ず|決して)"
)
_INSISTS = re.compile(
    r"(?i)\b(?:(?:must|may|shall) (?:never|always|not)\b|should (?:never|always|not)\b"
    r"(?! (?:need|matter|take|have to|be (?:hard|difficult|necessary|needed|too)))"
    r"|must be\b(?! (?:an?|the|some\w*|because|due|caused|wrong|broken)\b)|insists?\b"
    r"|not allowed\b"
    r"|is forbidden\b|is off limits\b|has to stay\b|have to stay\b|(?:muss|müssen|darf"
    r"|dürfen) (?:nie|immer|nicht))"
)
# What a program says is no rule of the person.
_REPORTED = re.compile(
    r"(?i)\b(?:says?|said|errors?|messages?|logs?|warnings?|complains?|prints?|throws?|reports?"
    r"|fails?|meldet|sagt)\b"
)
_DECISION = re.compile(
    r"(?i)\W*(?:ok(?:ay)?[,. ]+|and |so )*(?:decision:|decided:|we(?:'ve| have)? decided\b|i(?:'ve"
    r"| have)? decided\b"
    r"|let'?s (?:go with|use|stick with|keep|take|do it with)\b|(?:we|i)(?:'ll| will) (?:go with"
    r"|use|stick with|take)\b"
    r"|go with\b|entscheidung:|wir nehmen\b|karar:|결정:|决定)"
)
_REASON = re.compile(r"(?i)\W*(?:because|since|as |otherwise|so that|the reason|weil|denn|sonst)\b")


def note(state: SessionState, text: str, source: Receipt) -> None:
    """Keep the rules and decisions of a prompt, each with its reason."""
    typed = "\n".join(line for line in text[:READ_MAX].split("\n") if not is_pasted(line))
    parts = sentences(plain(typed))
    for number, part in enumerate(parts):
        if part.endswith(("?", "？")) or weight(part) < 1:
            continue
        after = parts[number + 1] if number + 1 < len(parts) else ""
        said = f"{part} {after}" if _REASON.match(after) else part
        if _DECISION.match(part):
            decide(state, said, source)
        elif _RULE.match(part) or _insists(part):
            _enter(state.rules, said, source, RULES_MAX)


def are_all(text: str) -> bool:
    """Return True if a request says nothing but rules, decisions and their reasons."""
    return all(
        _DECISION.match(part) or _RULE.match(part) or _insists(part) or _REASON.match(part)
        for part in sentences(plain(text))
    )


def _insists(part: str) -> bool:
    found = _INSISTS.search(part)
    return found is not None and not _REPORTED.search(part[: found.start()])


def decide(state: SessionState, text: str, source: Receipt) -> None:
    _enter(state.decisions, text, source, DECISIONS_MAX)


def _enter(values: list[Value], text: str, source: Receipt, most: int) -> None:
    line = keep(text, QUOTED_MAX)
    if line and all(value.text != line for value in values):
        values.append(Value(line, source))
        del values[:-most]
