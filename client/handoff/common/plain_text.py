"""Text from outside, made harmless for the session that reads it or the terminal that shows it.

Pure, and shared by the daemon and the client. Three things become harmless in any spelling: tags
(ours, and those of the client that runs a session), the call for a person, and characters that a
terminal obeys or a reader does not see. To find them, a text is folded character by character:
NFKD, without marks and case, and with a Latin letter or a plain sign for each look-alike. The
place of each folded character in the text itself is kept.
"""

import html
import json
import re
import sys
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, BinaryIO, NamedTuple, TextIO

_IGNORED, _NEARLY_LESS = "\0", "\1"


def _each_like(characters: str, letters: str) -> dict[str, str]:
    return dict(zip(characters, letters, strict=True))


_ALIKE = {
    **dict.fromkeys("‹〈⟨❬❮❰⦉⦑⧼≺⋖⧀", "<"),
    **dict.fromkeys("›〉⟩❭❯❱⦊⦒⧽≻⋗⧁", ">"),
    # They look like a bracket, but are ordinary letters if no Latin name follows.
    **dict.fromkeys("˂ᐸᚲ𝈶", _NEARLY_LESS),
    **dict.fromkeys("⁄∕⧸╱", "/"),
    **_each_like("авекмнорстухіјѕһԁԛԝѵпшияғҽ", "abekmhopctyxijshdqwvnwnrfe"),
    **_each_like("αεηικνορτυχωɡɑı", "aenikvoptuxwgai"),
    **_each_like("հոսօցⲁⲃⲉⲏⲓⲕⲙⲛⲟⲣⲥⲧⲭⲩ", "hnuogabehikmnopctxy"),
    **_each_like("ᎪᎠᎬᎻᎥᎷᎡᏙᏔᎳᏟᎢ", "adehimrvwwct"),
    **_each_like("ꓮꓚꓓꓰꓝꓧꓲꓟꓠꓳꓣꓔꓴꓦꓪꓫ", "acdefhimnortuvwx"),
}
# In small letters these look like others.
_ALIKE_IN_CAPITALS = _each_like("ΑΒΕΗΙΚΜΝΟΡΤΥΧϹϺ", "abehikmnoptyxcm")
# Letters in a circle or a square, on a flag, in small capitals, or with a stroke or a hook.
_LATIN = re.compile(
    r"(?:LATIN .*LETTER |INDICATOR SYMBOL LETTER )(?:SMALL CAPITAL )?([A-Z])(?: WITH .*)?"
)
# Characters without width, or with an invisible one, besides the controls and formats.
_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2065\u3164\uffa0")
_HIDDEN = ((0x180B, 0x180F), (0xFE00, 0xFE0D), (0xFFF0, 0xFFF8), (0xE0000, 0xE0FFF))
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
# The style of an emoji; behind anything else, or twice, such a selector carries hidden data.
_SELECTED = re.compile("[\ufe0e\ufe0f]+")
_STYLED = frozenset({"So", "Sm", "Sk", "Po", "Pd"})
# The maximum depth of entities in entities; a text with more is assumed to hide something.
_ENTITIES_DEEP = 8
# The maximum number of characters that a table remembers.
_KNOWN_MAX = 4096

_NAME = r"(?:[/\\!?|]|&#|[^\W\d])"
_GREATER = "&(?:amp;)*gt;?"
_END = rf"(?:(?<![-=])>(?!=)|{_GREATER})"
# With a space behind the bracket only a whole tag counts: `a < b` and `a < b->c` are no tags.
_WORD = r"[^\W\d][\w:.-]{0,80}+\s*+"
_WHOLE_TAG = (
    rf"(?:/\s*+{_WORD}(?:>|{_GREATER})|{_WORD}(?:/?(?:(?<!-)>|{_GREATER})"
    rf"|(?<=\s)[\w:-]{{1,80}}+\s*+=[^<>\n]{{0,200}}?(?:(?<!-)>|{_GREATER})))"
)
# An entity of `<` or of a look-alike, also one that was encoded twice.
_ENTITY = (
    r"&(?:amp;|#0*38;|#x0*26;)*"
    r"(?:n?lt|nvlt|notless|lang|langle|leftanglebracket|bra|lsaquo"
    r"|#0*(?P<ten>[1-9]\d{0,6})|#x0*(?P<sixteen>[1-9a-f][0-9a-f]{0,5}));?"
)
# A bracket at the very end counts, too: other text may follow it.
_OPENING = re.compile(
    rf"(?:<|{_ENTITY})(?={_NAME}|\s++{_WHOLE_TAG}|\s*+\Z)"
    rf"|{_NEARLY_LESS}(?=[/\\!?|]?[a-z]|\s++{_WHOLE_TAG})"
)
_CLOSING = re.compile(rf"[^<>&\n]{{0,200}}?(?P<sign>{_END})")
_COMPARED = re.compile(rf"(?<=[\w)\]])<(?!{_WHOLE_TAG})(?=[^\W_][\w.]{{0,40}}+(?![\w.:-]))")
# More than a name up to the closing bracket, and an operand behind it: both brackets compare.
_OPERANDS = re.compile(r"[^\s|()<>&\"'`=]{1,80}+[\s|()](?:[^<>&\n\"'`=]|[!=]=){0,200}?>\s*+[\w(]")

# A ligature (`ff`) is folded to the first of its letters.
_MARK = re.compile(r"handof+d(?P<sign>(?:[^\w\s]|_)++)context")
_CALL = re.compile(r"human(?P<rest>[\W_]*+review(?:[^\w(]|_)*+needed)")


class PlainText(str):
    """Text that is harmless: the functions here made it, or the user or this program wrote it."""

    __slots__ = ()


def plain(text: str, *, calls: bool = False) -> PlainText:
    """Return the text made harmless; with `calls`, a call for a person in it stays a call."""
    if isinstance(text, PlainText):
        return text
    if not (text.isascii() and text.isprintable()):
        text = text.replace("\r\n", "\n").translate(_EACH_SEEN)
        text = text if text.isascii() else _SELECTED.sub(_styled, text)
    text = _replaced(text, [*_brackets(text), *_marks(text)])
    text = text if calls else uncalled(text)
    return PlainText(text.replace("&", "& ") if _hides_harm(text, calls=calls) else text)


def _hides_harm(text: str, *, calls: bool) -> bool:
    """Return True if a reader that decodes the entities of HTML in a text would find harm."""
    if "&" not in text:
        return False
    for _ in range(_ENTITIES_DEEP):
        decoded = html.unescape(text)
        if decoded == text:
            return False
        text = decoded
        spots = (*_brackets(text), *_marks(text))
        if spots or (not calls and uncalled(text) != text):
            return True
    return True


def plain_line(text: str, *, calls: bool = False) -> PlainText:
    """Return a text as one harmless line."""
    if isinstance(text, PlainText):
        return text
    return plain(_one_line(text), calls=calls)


def _one_line(text: str) -> str:
    return text.replace("\n", r"\n").replace("\t", r"\t")


def plain_lines(lines: Iterable[str]) -> PlainText:
    """Return lines as one text, which is harmless as a whole: a call may span two of them."""
    parts: list[str] = []
    for harmless, group in groupby(lines, lambda line: isinstance(line, PlainText)):
        some = list(group)
        parts += some if harmless else [plain("\n".join(map(_one_line, some)))]
    return PlainText("\n".join(parts))


def plain_values(
    value: Any, several_lines: Collection[str] = (), *, calls: bool = False, name: str = ""
) -> Any:
    """Return a document with all its texts harmless; some, by name, may have several lines."""
    if isinstance(value, str):
        return (plain if name in several_lines else plain_line)(value, calls=calls)
    if isinstance(value, dict):
        return {
            plain_line(key) if isinstance(key, str) else key: plain_values(
                item, several_lines, calls=calls, name=key
            )
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [plain_values(item, several_lines, calls=calls, name=name) for item in value]
    return value


def attribute(text: str, most: int) -> PlainText:
    """Return at most `most` characters of a text as the quoted value of our mark's attribute."""
    line = plain_line(text)[:most]
    signs = {"<": "(", ">": ")", _NEARLY_LESS: "("}
    pairs = zip(line, _each_folded(line), strict=True)
    return PlainText('"' + "".join(signs.get(f, c) for c, f in pairs).replace('"', "'") + '"')


def uncalled(text: str) -> str:
    """Return the text with each mention of the call for a person changed into no call."""
    folded = _folded(text)
    if "needed" not in folded.text:
        return text
    found = _CALL.finditer(folded.text)
    return _replaced(text, ((*folded.span(call, "rest"), " review (needed)") for call in found))


def plain_json(value: Any, indent: int | None = 2) -> PlainText:
    """Return JSON with the same values, in which unseen characters and tags are escaped."""
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    return PlainText(escaped_json(text))


def escaped_json(text: str) -> str:
    """Return the same JSON with its unseen characters and the brackets of its tags escaped."""
    tags = ((at, at + 1, _json_escape(text[at])) for at, _, sign in _brackets(text) if sign != "]")
    text = _replaced(text, tags).translate(_EACH_IN_JSON)
    return text.replace("&", r"\u0026") if _hides_harm(text, calls=True) else text


def _json_escape(char: str) -> str:
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(rf"\u{units[n]:02x}{units[n + 1]:02x}" for n in range(0, len(units), 2))


class PlainStream:
    """A stream that makes written text harmless, unless it is a PlainText already.

    It has no method `fileno`, so that `input` writes its question here, too.
    """

    def __init__(self, inner: TextIO) -> None:
        self.inner = inner

    def write(self, text: str) -> int:
        return self.inner.write(plain(text))

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    @property
    def buffer(self) -> BinaryIO:
        """The stream below, for the bytes of a protocol."""
        return self.inner.buffer

    def flush(self) -> None:
        self.inner.flush()

    def isatty(self) -> bool:
        return self.inner.isatty()


# Places and signs


def _replaced(text: str, spots: Iterable[tuple[int, int, str]]) -> str:
    """Return the text with some spans replaced; of two spans that overlap the first one counts."""
    parts: list[str] = []
    done = 0
    for start, end, sign in sorted(spots):
        if start >= done:
            parts += text[done:start], sign
            done = end
    return "".join([*parts, text[done:]])


def _brackets(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield the replacements of each tag's opening bracket, and of a closing one that is near."""
    folded = _folded(text)
    for found in _OPENING.finditer(folded.text):
        number = int(found["ten"] or 0) or int(found["sixteen"] or "0", 16)
        if number and (number > sys.maxunicode or _fold(chr(number)) not in ("<", _NEARLY_LESS)):
            continue
        closing = _CLOSING.match(folded.text, found.end())
        if _is_compared(found, closing):
            yield *folded.span(found), " < "
            continue
        yield *folded.span(found), "["
        if closing:
            yield *folded.span(closing, "sign"), "]"


def _is_compared(found: re.Match[str], closing: re.Match[str] | None) -> bool:
    """Return True if a bracket compares two values, and so does the closing one, if any."""
    if not _COMPARED.match(found.string, found.start()):
        return False
    return not closing or bool(_OPERANDS.match(found.string, found.end()))


def _marks(text: str) -> Iterator[tuple[int, int, str]]:
    folded = _folded(text)
    return ((*folded.span(found, "sign"), " ") for found in _MARK.finditer(folded.text))


class _Folded(NamedTuple):
    """A folded text without its ignored characters, and the place of each other one."""

    text: str
    places: Sequence[int]

    def span(self, found: re.Match[str], group: str | int = 0) -> tuple[int, int]:
        start, end = found.span(group)
        return self.places[start], self.places[end - 1] + 1


def _folded(text: str) -> _Folded:
    each = _each_folded(text)
    if _IGNORED not in each:
        return _Folded(each, range(len(each)))
    places = [place for place, char in enumerate(each) if char != _IGNORED]
    return _Folded(each.replace(_IGNORED, ""), places)


def _each_folded(text: str) -> str:
    return text.lower() if text.isascii() else text.translate(_EACH_FOLDED)


def _styled(found: re.Match[str]) -> str:
    """Return the style of an emoji as it is, and the escape of any other selector."""
    before = found.string[found.start() - 1 : found.start()]
    is_emoji = before and (unicodedata.category(before) in _STYLED or before in "#*0123456789")
    return found[0] if is_emoji and len(found[0]) == 1 else _escape(found[0])


def _escape(text: str) -> str:
    return text.encode("unicode_escape").decode()


def _is_unseen(char: str) -> bool:
    if char in "\n\t":
        return False
    hidden = any(first <= ord(char) <= last for first, last in _HIDDEN)
    return hidden or char in _BLANK or unicodedata.category(char) in _UNSEEN


def _seen(char: str) -> str:
    return _escape(char) if _is_unseen(char) else char


def _in_json(char: str) -> str:
    return _json_escape(char) if _is_unseen(char) else char


def _fold(char: str) -> str:
    """Return the character that stands for a given one in a folded text."""
    whole = unicodedata.normalize("NFKD", char)
    first = next((c for c in whole if unicodedata.category(c) not in ("Mn", "Me", "Cf")), "")
    if letter := _ALIKE_IN_CAPITALS.get(first):
        return letter
    small = first.casefold()[:1] or _IGNORED
    if small in _ALIKE or small.isascii():
        return _ALIKE.get(small, small)
    latin = _LATIN.search(unicodedata.name(small, ""))
    return latin[1].lower() if latin else small


class _Each(dict[int, str]):
    """A table for str.translate that computes the entry of a character at its first use."""

    def __init__(self, ask: Callable[[str], str]) -> None:
        self.ask = ask

    def __missing__(self, code: int) -> str:
        if len(self) >= _KNOWN_MAX:
            self.clear()
        return self.setdefault(code, self.ask(chr(code)))


_EACH_SEEN, _EACH_IN_JSON, _EACH_FOLDED = _Each(_seen), _Each(_in_json), _Each(_fold)
