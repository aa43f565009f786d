"""Secrets in the syntax of a protocol or a command: URLs, headers, cookies and flags."""

import base64
import re
from collections.abc import Callable, Iterator

from handoffd.redaction.assignments import find_assigned
from handoffd.redaction.key_material import MATERIAL
from handoffd.redaction.private_keys import HINTS, Found
from handoffd.redaction.randomness import looks_random

# Texts in the place of a secret in an example.
FILLER = re.compile(
    r"(?i)example|placeholder|your[_-]|[_-]here\b|redacted|x{6,}|\*{3,}|\.{3,}|0{12,}|changeme"
)
_NO_PASSWORD = re.compile(
    r"(?i)[\[{<$%(*]|\.\.\.|x{3,}\Z|(?:my|your)?_?(?:passw(?:or)?d?|passwort|pwd|pass|pw)\d?\Z"
)
_TOKEN_MIN = 20  # for the user in a URL without a password
_COOKIE_MIN = 16
_QUOTE = r"(?:\\{0,2}[\"'`])?"


def is_userinfo(value: str) -> bool:
    """Return True if a value is name:password in base64, not a word."""
    try:
        decoded = base64.b64decode(value + "=" * (-len(value) % 4), validate=True).decode("ascii")
    except ValueError:
        return False
    return ":" in decoded and decoded.isprintable()


_USERINFO = re.compile(
    r"://(?!\[redacted)(?P<all>[^\s/:@\"'<>`]{0,128}:(?P<password>[^\s/\"'<>`]{3,256})"
    r"|(?P<token>[\w.~%-]{20,256}))@(?=[\w\[%.-])"
)


def _url(text: str, at: int) -> Iterator[Found]:
    start = text.rfind("://", max(at - 400, 0), at)
    url = _USERINFO.match(text, start) if start >= 0 else None
    if url is None:
        return
    password = url["password"]
    if (
        looks_random(url["token"], _TOKEN_MIN)
        if password is None
        else not _NO_PASSWORD.match(password)
    ):
        yield *url.span("all"), "url-password"


_HEADER = re.compile(
    rf"{_QUOTE}\s{{0,2}}[:=,]\s{{0,2}}{_QUOTE}"
    rf"(?:(?P<scheme>[A-Za-z][A-Za-z-]{{1,20}})\s{{1,2}}{_QUOTE})?"
    r"(?P<value>[^\s\"'`,;<>\\]{6,4096})"
)
_SCHEMES = {"bearer": "bearer-token", "basic": "basic-auth"}


def _authorization(text: str, at: int) -> Iterator[Found]:
    header = _HEADER.match(text, at + len("zation"))
    if header is None or _NO_PASSWORD.match(header["value"]) or FILLER.search(header["value"]):
        return
    scheme, value = header["scheme"], header["value"]
    if looks_random(value, 8 if scheme else 12) or (scheme and is_userinfo(value)):
        yield *header.span("value"), _SCHEMES.get((scheme or "").lower(), "authorization")


_COOKIES = re.compile(rf"{_QUOTE}(?:\s{{0,2}}[:=]|\s)\s{{0,2}}{_QUOTE}[^\n\"']{{1,1024}}")
_COOKIE = re.compile(r"(?<![\w.-])[\w.-]{1,64}=(?P<value>[^\s;,\"']{12,})")


def _cookies(text: str, at: int) -> Iterator[Found]:
    line = _COOKIES.match(text, at + len("kie"))
    for pair in _COOKIE.finditer(text, *line.span()) if line else ():
        if looks_random(pair["value"], _COOKIE_MIN) and not FILLER.search(pair["value"]):
            yield *pair.span("value"), "cookie"


# The commands that take a password after a short flag.
_COMMANDS = {
    flag: re.compile(rf"(?i)(?:^|[\s/\\\"'`(;&|])(?:{names})\b[^|;&\n]{{0,160}}\Z")
    for flag, names in {
        "-p": r"mysql\w*|mariadb\w*|sshpass|psexec(?:\.exe)?|login|7z\w?|mongo\w*|nmcli",
        "-P": r"sqlcmd|bcp|zip|unzip|osql",
        "-a": r"redis-cli|valkey-cli",
        "-w": r"ldap\w+",
    }.items()
}
_ARGUMENT = re.compile(r"[ =]?[\"']?(?P<value>[^\s\"'`]{3,128})")
_USER = re.compile(
    r"(?:-u|--user)[ =]{0,2}[\"']?(?!\[redacted)[\w.@+~\\-]{1,64}:(?P<value>[^\s\"'$<{]{4,128})"
)


def _flag(text: str, at: int) -> Iterator[Found]:
    """Find the password after the flag of a command that is known to take one there."""
    argument = _ARGUMENT.match(text, at + 2)
    command = _COMMANDS[text[at : at + 2]]
    if (
        argument
        and _may_be_password(argument["value"])
        and command.search(text[max(at - 200, 0) : at])
    ):
        yield *argument.span("value"), "password"


def _user(text: str, at: int) -> Iterator[Found]:
    argument = _USER.match(text, at)
    if argument and _may_be_password(argument["value"]):
        yield *argument.span("value"), "basic-auth"
    elif text.startswith("--", at):
        yield from find_assigned(text, at)


def _may_be_password(value: str) -> bool:
    return not (value.isdigit() or value[0] in "-[|&>" or _NO_PASSWORD.match(value))


_SIGNATURE = re.compile(r"sig=(?P<value>(?:[A-Za-z0-9+/]|%2[BbFf]){43}%3[dD])")


def _signature(text: str, at: int) -> Iterator[Found]:
    """Find the signature of an Azure URL by its end, since "&" may be escaped in several ways."""
    start = text.rfind("sig=", max(at - 140, 0), at)
    signature = _SIGNATURE.match(text, start) if start >= 0 else None
    if signature:
        yield *signature.span("value"), "azure-sas"


_PGPASS = re.compile(r":5432:[^\s:]{1,64}:[^\s:]{1,64}:(?P<value>[^\s:\"']{3,128})")


def _pgpass(text: str, at: int) -> Iterator[Found]:
    """Find the password in a line of .pgpass: host:port:database:user:password."""
    line = _PGPASS.match(text, at - 1)
    if line and _may_be_password(line["value"]):
        yield *line.span("value"), "password"


_OPENSSL = re.compile(r"-pass(?:in|out)?\s{1,3}[\"']?pass:(?P<value>[^\s\"'`]{3,128})")


def _openssl(text: str, at: int) -> Iterator[Found]:
    """Find the password after `-pass pass:` of openssl."""
    argument = _OPENSSL.search(text, max(at - 12, 0), at + 140)
    if argument and _may_be_password(argument["value"]):
        yield *argument.span("value"), "password"


_SEED = re.compile(
    r"[\"'`]?(?:\s{0,2}[:=]|\sis|\swas)?\s{0,2}\\{0,2}[\"'`\[]?"
    r"(?P<words>[a-z]{3,8}(?:[ ,\"'\n]{1,4}[a-z]{3,8}){11,23})\b"
)
# Frequent words that no word list of seed phrases contains.
_PROSE = re.compile(r"\b(?:the|and|are|for|from|has|into|its|not|our|was|which|with|your|you)\b")


def _seed(text: str, at: int) -> Iterator[Found]:
    """Find the twelve or more words after the name of a seed phrase."""
    name = _SEED_NAME.match(text, at)
    phrase = _SEED.match(text, name.end()) if name else None
    if phrase and not _PROSE.search(phrase["words"]):
        yield *phrase.span("words"), "seed-phrase"


_SEED_NAME = re.compile(r"\w+")


_MAILCHIMP = re.compile(r"(?<![A-Za-z0-9])[a-f0-9]{32}-us\d{1,2}")


def _mailchimp(text: str, at: int) -> Iterator[Found]:
    key = _MAILCHIMP.match(text, max(at - 32, 0))
    if key:
        yield *key.span(), "mailchimp-key"


# The hint at a spot -> the function that finds the secret there.
CARRIERS: dict[bytes, Callable[[str, int], Iterator[Found]]] = {
    b"@": _url,
    b"%3D": _signature,
    b"%3d": _signature,
    b"5432:": _pgpass,
    b"pass:": _openssl,
    b"phrase": _seed,
    **{f"c{sign}".encode(): _seed for sign in ':="'},
    b"zation": _authorization,
    b"kie": _cookies,
    b"-us": _mailchimp,
    b"-u": _user,
    b"--": _user,
    **{flag.encode(): _flag for flag in _COMMANDS},
    **{hint.seen.encode(): hint.find for hint in (*HINTS, *MATERIAL)},
}
