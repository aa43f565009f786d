"""Private keys without the marks of PEM: JWK, `openssl -text`, XML, lists of bytes, DER in digits.

Each is recognised by a mark that only a private key has: the name of a private number, the first
bytes of an encoding, or a checksum. Public numbers and hashes of the same length are not masked.
"""

import hashlib
import re
from collections.abc import Callable, Iterator

from handoffd.redaction.private_keys import KIND, Found, Hint
from handoffd.redaction.randomness import looks_random

_FAR = 8000  # the characters of a key of 8192 bits on one side of its mark

_JWK_VALUE = re.compile(
    r"(?<![\w.-])(?:d|p|q|dp|dq|qi|k|priv)[\"'\\]{0,8}\s{0,3}:\s{0,3}[\"'\\]{0,8}"
    r"(?P<value>[\w-]{22,}+)",
    re.ASCII,
)


def _jwk(text: str, at: int) -> Iterator[Found]:
    """Find the private members of the JSON object that has the member "kty" at `at`."""
    first = max(at - _FAR, 0)
    start = max(text.rfind("{", first, at), text.rfind("kty", first, at), first)
    ends = text.find("}", at, at + _FAR), text.find("kty", at + 1, at + _FAR)
    end = min((end for end in ends if end >= 0), default=at + _FAR)
    for member in _JWK_VALUE.finditer(text, start, end):
        if looks_random(member["value"], 22):
            yield *member.span("value"), KIND


_XML_VALUE = re.compile(
    r"(?:<|&lt;)(?:P|Q|DP|DQ|InverseQ|D)(?:>|&gt;)(?P<value>[A-Za-z0-9+/=\s]{16,}+)"
)


def _xml(text: str, at: int) -> Iterator[Found]:
    """Find the private numbers of an RSAKeyValue."""
    end = text.find("RSAKeyValue", at, at + _FAR)
    end = end if end >= 0 else at + _FAR
    for member in _XML_VALUE.finditer(text, at, end):
        yield *member.span("value"), KIND


_PRIVATE_NUMBERS = ("privateexponent", "priv", "prime1")
_COLONS = re.compile(r"(?:[0-9a-fA-F]{2}:){7,}+(?:[0-9a-fA-F]{2}(?![0-9a-fA-F]))?")
_MORE_COLONS = re.compile(r"(?:[0-9a-fA-F]{2}:)++(?:[0-9a-fA-F]{2}(?![0-9a-fA-F]))?")
_COLON_GAP = 80  # the maximum prefix of a line in a listing
# The names of the numbers that follow.
_NEXT_NUMBER = re.compile(r"[^:]{0,80}?(?:prime[12]|exponent[12]|coefficient):(?=[\s\\])")


def _colons(text: str, at: int) -> Iterator[Found]:
    """Find the bytes after the name of a private number; a line to be continued ends in a colon."""
    while first := _COLONS.search(text, at, at + _COLON_GAP + len("privateexponent")):
        line: re.Match[str] | None = first
        at = first.end()
        while line and text[at - 1] == ":":
            if line := _MORE_COLONS.search(text, at, at + _COLON_GAP):
                at = line.end()
        yield first.start(), at, KIND
        if (name := _NEXT_NUMBER.match(text, at)) is None:
            return
        at = name.end()


_NUMBERS = re.compile(r"(?:\d{1,6}[\s,→|│]{1,40}+)*+\d{0,3}")
_NUMBER = re.compile(r"\d+")
_PUBLIC = re.compile(rb"CERTIF|PUBLIC")
_SAMPLE_CHARACTERS = 400  # the characters of a list that contain its mark


def _numbers(text: str, at: int) -> Iterator[Found]:
    """Find a list of numbers that are the bytes of a key; `at` is the first one's second digit."""
    at -= 1
    sample = [int(number) for number in _NUMBER.findall(text, at, at + _SAMPLE_CHARACTERS)]
    public = _PUBLIC.search(bytes(n for n in sample if n < 256))  # noqa: PLR2004
    if not public and (numbers := _NUMBERS.match(text, at)):
        yield *numbers.span(), KIND


_DIGITS = re.compile(r"[0-9a-fA-F]{2,}+")
_BEFORE = 128  # the maximum of digits before the mark of the key
_DIGITS_BEFORE = re.compile(r"[0-9a-fA-F]*\Z")
# The text between two lines; the last line may be short.
_DIGITS_GAP = re.compile(r"[\s\"'+\\n:]{1,24}+(?=(?:[0-9a-fA-F]{2}){4,}+(?![A-Za-z0-9]))")


def _der(text: str, at: int) -> Iterator[Found]:
    """Find DER in hexadecimal digits, on one line or more."""
    before = _DIGITS_BEFORE.search(text[max(at - _BEFORE, 0) : at])
    end = at
    while digits := _DIGITS.match(text, end):
        end = digits.end()
        gap = _DIGITS_GAP.match(text, end)
        end = gap.end() if gap else end
    if before:
        yield at - len(before[0]), end, KIND


_BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"


def _wif(text: str, at: int) -> Iterator[Found]:
    """Find a private key of Bitcoin by the checksum at its end."""
    size = 51 if text[at] == "5" else 52
    number = 0
    for char in text[at : at + size]:
        number = number * 58 + _BASE58.index(char)
    content = number.to_bytes(38, "big")[1 if size == 51 else 0 :]  # noqa: PLR2004
    checksum = hashlib.sha256(hashlib.sha256(content[:-4]).digest()).digest()[:4]
    if content[0] == 0x80 and content[-4:] == checksum:  # noqa: PLR2004
        yield at, at + size, KIND


def _listed(values: str) -> str:
    return "".join(rf",\s{{0,40}}{value}" for value in values.split()) + ","


def _each(find: Callable[[str, int], Iterator[Found]], *hints: tuple[str, str, str]) -> list[Hint]:
    return [Hint(before, seen, ahead, find) for before, seen, ahead in hints]


# Anchors of other hints are reused if possible: each new anchor costs one scan of every text.
MATERIAL = (
    *_each(_jwk, ("", "kty", r"[\"'\\]{0,8}\s{0,3}:")),
    *_each(_xml, ("[<;]RSA", "KeyValue", "[>&]")),
    *_each(_colons, *(("", f"{name}:", r"[\s\\]") for name in _PRIVATE_NUMBERS)),
    *_each(_numbers, ("4", "5", _listed("45 45 45 45 66 69 71 73 78"))),
    *_each(
        _der,  # PKCS 1 and 8 of RSA, of elliptic curves and of Ed25519, SEC 1, OpenSSH
        ("30", "82", "[0-9a-fA-F]{4}020100(?:028[12]|300[dD]0609)"),
        ("30", "81", "[0-9a-fA-F]{2}02010(?:0301[03]0607|104[34])"),
        ("30770201010420[0-9a-fA-F]{64}[aA]00[aA]06082[aA]", "8648", "[cC][eE]3[dD]030107"),
        ("02010[01]300506032", "b6570", "04220420"),
        ("02010[01]300506032", "b656e", "04220420"),
        ("6[fF]70656[eE]73736", "82d6b65792d7631", ""),
        ("6[fF]70656[eE]73736", "82D6B65792D7631", ""),
    ),
    *_each(
        _wif,
        *(
            ("(?<![A-Za-z0-9])", start, rf"[{_BASE58}]{{{size}}}(?![A-Za-z0-9])")
            for size, starts in ((49, "5H 5J 5K"), (50, "Kw Kx Ky Kz"))
            for start in starts.split()
        ),
    ),
)
