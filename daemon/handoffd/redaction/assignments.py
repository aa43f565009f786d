"""Secrets that only their name reveals: `DB_PASSWORD=...`, `"token": "..."`, `--api-key ...`.

The name says how likely its value is a secret, and the value has to fit: a password may be a word
if it is written like a value; a token or a key has to look random.
"""

import re
from collections.abc import Iterator
from enum import Enum

from handoffd.redaction.kinds import TOKENS
from handoffd.redaction.randomness import entropy_bits, is_path, is_uuid, looks_random

PASSWORD_MIN = 4
SECRET_MIN = 8
KEY_MIN = 16
_SPOKEN_MIN = 6  # for a password in a sentence
# The characters of a value that decide if it is a secret; a secret is then read to its end.
_JUDGED = 256
_BACK = 48  # the maximum characters of a name on either side of the spot

_HEAD = re.compile(r"[\w.-]*", re.ASCII)
_TAIL = re.compile(r"[A-Za-z0-9_ñ.$-]*")
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-zñ]+|\d+")

_QUOTE = r"\\{0,3}(?:[\"'`]|&quot;|%22)"
# The text between a name and its value; `between` is the part that closes the name.
_SIGN = re.compile(
    rf"""(?P<between>(?:{_QUOTE}|\]|\)){{0,3}})
    (?:\s\d{{1,2}}(?=:))?
    (?:
        (?P<value_of>\s{{0,4}},?\s{{0,20}}(?:{_QUOTE})?[vV]alue(?:{_QUOTE})?\s{{0,3}}[:=]
          |\s{{0,4}}\{{[^{{}}]{{0,160}}?\bdefault\s{{0,12}}=)
      | (?:\s{{0,2}}(?::\s{{0,2}})?\b(?:str|[sS]tring|char\s?\*)(?:\s?\|\s?None)?(?=\s{{0,2}}=))?
        \s{{0,24}}
        (?P<sign>=>|->|:{{0,3}}=(?!=)|\?\?=?|\|\|?=?|[?.+]=|[!=]={{1,2}}|=|:(?!:)|>(?!=)|,|%3D
          |-(?=\s["'`]))
      | (?P<is>\s{{1,2}}(?:(?:for|of)\s[^.:=\n]{{1,40}}?\s)?
        (?:is|was|ist|est|es|to)(?:\s(?:now|set\sto))?\s?[:=]?(?=[\s"'`]))
      | (?P<gap>(?=\s))
    )
    (?P<space>\s{{0,40}})""",
    re.VERBOSE,
)
_QUOTED = re.compile(
    rf"[rbuRBU@$]{{0,2}}(?P<quote>{_QUOTE})(?:\\{{0,3}}[\"']){{0,2}}"
    rf"(?P<value>(?:(?!(?P=quote))[^\n]){{1,{_JUDGED}}})"
)
_TO_QUOTE = {quote: re.compile(rf"[^\n{quote}]*") for quote in "\"'`;2"}
# A value ends where the next thing begins: "&name=", ";Name=", a quote, a tag, a line.
_BARE = re.compile(rf"(?:(?![&;,][\w. %-]{{1,30}}=)(?!%26|\\[nrt])[^\s\"'`<>]){{1,{_JUDGED}}}")
_TO_SPACE = re.compile(r"[^\s\"'`<>]*")
_CLOSING = ",;.:)]}\\*"
# The only secret whose length is known although its form is not.
_AWS = re.compile(r"\\{0,3}[\"']?(?P<value>[A-Za-z0-9/+]{40})(?![A-Za-z0-9/+=])")

_PLACEHOLDER = re.compile(
    r"""(?ix) (?:
        ["']?\$[a-z_{(] | [#%.][a-z_][\w-]*%?$ | [%@\#]?[{(<\[] | &lt;
      | [x*.\#_?\-=~…•0/+]{3,}$ | (.)\1*$ | \.\.\.
      | (?:true|false|none|null|nil|undefined|void|any|str|string|number|int|integer|bool|boolean
        |bytes|object|text|auto|yes|no|on|off|required|optional|default|missing|invalid|unset
        |not[_-]set|empty|unknown|disabled|enabled|hidden|masked|changed?|updated?|deprecated)$
      | arn: | https?:// | file:// | vault: | ssm: | secret: | op:// | env: | data: | urn:
      | sha\d{1,3}[-:]
      | (?:os|process|import\.meta|system|std|core|self|this|window|config|settings|secrets?|props
        |args?|options?|opts|env|vars?|ctx|request|req|data|params)(?:\.|\[|::|->)\D*$
      | (?:await|return|lambda|function|const|let|var|typeof|new)\s
      | my[_-] | some[_-] | test$ | todo | fixme
      )
    """
)
# These may be anywhere in a value. Every alternative begins with a fixed character, so that most
# places are rejected at once.
_FILLED = re.compile(
    r"example|placeholder|change[_-]?me|change[_-]?it|your[_-]?[a-z]|_here\b|-here\b|insert[_-]"
    r"|replace[_-]|redacted|xxxxx|\*\*\*\*|dummy|foo\b(?<=\bfoo)|bar\b(?<=\bbar)|lorem"
    r"|fake|\(\)(?<=\w\(\))"
)
_SAMPLE_CHARACTERS = 96  # the characters of a value in which a placeholder shows


def _is_placeholder(value: str) -> bool:
    sample = value[:_SAMPLE_CHARACTERS]
    return bool(_PLACEHOLDER.match(sample) or _FILLED.search(sample.lower()))


# The words of a message or a form about passwords.
_TEXT = re.compile(
    r"(?i)\b(?:the|your|enter|please|must|should|is|are|was|not|and|or|for|with|confirm|forgot"
    r"|reset|invalid|wrong|incorrect|new|missing|required|at least|characters?|field|user|login"
    r"|cannot|do|does|has|have|this|that|from|in|of|to|a|an|flag|option|argument|stdin|prompt)\b"
)
# A capital followed by one small letter at most: a name of several words has hardly any.
_HUMP = re.compile(r"(?<![A-Z])[A-Z][a-z]?(?![a-z])")
# Random letters have at least one of these per so many letters.
_HUMP_LETTERS = 3.5
# The name of a field, a route or a path in the place of a value.
_IDENTIFIER = re.compile(
    r"/.*|[a-z]+(?:_[a-z]+)+|[a-zA-Z]+(?:[/#:][a-zA-Z_-]+)+|[A-Za-z_]\w*(?:(?:\.|->|::)[A-Za-z_]\w*)+"
    r"|(?i:(?:\w*[_ -])?(?:passw(?:or[dt]|d)|pwd|pass|kennwort|contraseña|senha))",
    re.ASCII,
)


class Trust(Enum):
    """How strongly a name indicates that its value is a secret."""

    NONE = 0
    KEY = 1
    SECRET = 2
    PASSWORD = 3


_PASSWORD_WORD = re.compile(
    r"(?:passw(?:or[dt]|d)?|passwd|pwd|passphrase|passcode|passe|kennwort|senha|wachtwoord"
    r"|contrase[nñ]a)\Z"
    r"|(?:db|my|root|user|admin|smtp|mail|ftp|sql|ssh|sudo|redis|auth)?pass\Z"
)
_SECRET_WORD = re.compile(
    r"(?:secret|token|credentials?|apikey|accesskey|secretkey|privatekey|authkey|accountkey"
    r"|presharedkey|psk|jwt|auth|authorization)\Z"
)
_KEY_WORD = re.compile(r"[a-z]{0,20}(?:key|access|private)\Z")
_ENDING = 24  # the characters at the end of a word that are compared with these


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Words in names of values that are no secret, although the names end in "key" or "token".
_HARMLESS = _words(
    "public pub primary foreign cache cached sort partition hash hashed next prev page cursor"
    " continuation sync max min num count total input output prompt completion reasoning stop eos"
    " bos pad unk sep cls mask special idempotency i18n translation object row column index group"
    " map dict unique hot short lookup dedupe json yaml config query route registry label"
    " placeholder title message error hint help regex pattern lexer parser syntax ssh host known"
    " tab arrow escape enter meta ctrl shift alt modifier composite surrogate natural shard"
    " routing feature flag resume design sentinel"
)
# Words that may follow the decisive word; with any other word it names something else.
_SUFFIXES = _words(
    "value key base b64 base64 hex string raw plain plaintext prod production dev development"
    " stage staging test live main default old new current backup id sid secret us eu user admin"
    " root db api app env v pw token header local"
)
# A key of these is a secret; any other key only if its value is long and looks random.
_KEY_OF = _words(
    "api access secret private auth account shared preshared encryption signing master license"
    " service session client consumer app admin subscription deploy stream write storage webhook"
    " jwt hmac aes application"
)
_KEY_OF_BEFORE = re.compile(
    r"(?i)\b(?:api|access|secret|private|auth|account|licen[sc]e|encryption|master|unseal)[ _-]?\Z"
)


def _trust(name: str, before: str) -> Trust:
    """Return the trust in a name; `before` is the text in front of it, for "secret key:"."""
    words = [word.lower() for word in _WORDS.findall(name)]
    while words:
        word = words[-1][-_ENDING:]
        if _PASSWORD_WORD.search(word):
            return Trust.PASSWORD
        if not _HARMLESS.isdisjoint(words):
            break
        if _SECRET_WORD.search(word):
            return Trust.SECRET
        if _KEY_WORD.match(word):
            return _trust_key(words, before)
        if not word.isdigit() and word not in _SUFFIXES:
            break
        words.pop()
    return Trust.NONE


def _trust_key(words: list[str], before: str) -> Trust:
    *qualifiers, word = words
    named = not _KEY_OF.isdisjoint([*qualifiers, word.removesuffix("key")])
    if named or _KEY_OF_BEFORE.search(before):
        return Trust.SECRET
    return Trust.KEY if qualifiers or word != "key" else Trust.NONE


def find_assigned(text: str, spot: int) -> Iterator[tuple[int, int, str]]:
    """Yield the secret value of the name at `spot`, if there is one."""
    found = _value_after_sign(text, spot) or _value_at_line_end(text, spot)
    if found:
        yield found


def _value_after_sign(text: str, spot: int) -> tuple[int, int, str] | None:
    head = _HEAD.match(text[max(spot - _BACK, 0) : spot][::-1])
    tail = _TAIL.match(text, spot, spot + _BACK)
    if head is None or tail is None:
        return None
    start, end = spot - head.end(), tail.end()
    name = text[start:end]
    trust = _trust(name, text[max(start - 12, 0) : start])
    if trust is Trust.NONE or text.startswith("[redacted:", max(start - 10, 0)):
        return None
    sign = _SIGN.match(text, end)
    span = _value(name, trust, sign) if sign else None
    return (*span, "password" if trust is Trust.PASSWORD else "secret") if span else None


# A line of a few words and a value: "example SECRET 1f3a...", "example-key-1f3a...".
_ALONE = re.compile(
    r"[ \t>+]{0,8}"
    r"(?P<words>[A-Za-z][A-Za-z0-9]{0,30}(?:[ \t_-]{1,4}[A-Za-z][A-Za-z0-9]{0,20}){0,4}?)"
    r"[ \t:=_-]{1,6}[\"'`]?"
    r"(?P<value>[A-Za-z0-9+/.]{15,200}={0,2}|(?<=[ \t:=\"'`])[\w.+/=-]{15,200}"
    r"|\w{8}(?:-\w{4}){3}-\w{12})[\"'`]?[ \t\r]*(?:\n|\Z)",
)
_ALONE_BEFORE, _ALONE_BEHIND = 80, 240
# The table of kinds decides about these by their form: "key-" and 31 digits are not a Mailgun key.
_OPENINGS = frozenset(opening for row in TOKENS for opening in row.openings.split())
_NAMES_OF_HASHES = _words(
    "commit sha sha1 sha256 sha512 md5 checksum digest fingerprint uuid guid id"
)


def _value_at_line_end(text: str, spot: int) -> tuple[int, int, str] | None:
    """Return a random value at the end of a line that otherwise contains only its name."""
    end = text.find("\n", spot, spot + _ALONE_BEHIND)
    last = text[spot : end if end >= 0 else spot + _ALONE_BEHIND].split()[-1:]
    if not last or len(last[0]) < KEY_MIN:
        return None
    line = _ALONE.match(text, text.rfind("\n", max(spot - _ALONE_BEFORE, 0), spot) + 1)
    if line is None or not line.start() <= spot < line.start("value"):
        return None
    words, value = line["words"], line["value"]
    named = {word.lower() for word in _WORDS.findall(words)}
    prose = _TEXT.search(words) or not (_HARMLESS | _NAMES_OF_HASHES).isdisjoint(named)
    known = text[line.start("words") : line.start("value")] in _OPENINGS
    if prose or known or _is_placeholder(value) or not _is_random(value, Trust.KEY):
        return None
    return *line.span("value"), "secret"


def _value(name: str, trust: Trust, sign: re.Match[str]) -> tuple[int, int] | None:
    text, start = sign.string, sign.end()
    if "aws" in name.lower() and (exact := _AWS.match(text, start)):
        return exact.span("value")
    if quoted := _QUOTED.match(text, start):
        # In the text "Password:" the quote after the sign ends the text.
        before = sign.start() - len(name)
        ends = not sign["between"] and text.endswith(quoted["quote"], 0, max(before, 0))
        is_secret = not ends and _is_secret_quoted(
            name, trust, sign, quoted["value"].rstrip("\"'\\")
        )
        return _full_span(quoted, _TO_QUOTE[quoted["quote"][-1]]) if is_secret else None
    bare = _BARE.match(text, start)
    value = bare[0].rstrip(_CLOSING) if bare else ""
    end = start + len(value)
    if bare and value and _is_secret_bare(name, trust, sign, value, text[end : end + 1]):
        return (start, end) if len(bare[0]) < _JUDGED else _full_span(bare, _TO_SPACE)
    return None


def _full_span(value: re.Match[str], rest: re.Pattern[str]) -> tuple[int, int]:
    """Return the start and the end of a value, regardless of its length."""
    start, end = value.span("value" if value.re.groups else 0)
    longer = rest.match(value.string, end) if end - start >= _JUDGED else None
    return start, longer.end() if longer else end


def _min_length(trust: Trust) -> int:
    return KEY_MIN if trust is Trust.KEY else SECRET_MIN


def _is_secret_quoted(name: str, trust: Trust, sign: re.Match[str], value: str) -> bool:
    if (
        not value
        or value[0] in " ,;)+.\\"
        or _is_placeholder(value)
        or value.lower() == name.lower()
    ):
        return False
    if name.lower() == "pass" and not sign["between"] and sign["sign"] not in {"=", "=>", ":="}:
        return False  # "All tests pass: `make test`"
    if trust is Trust.PASSWORD and sign["sign"] not in {",", ">", "|"}:
        return len(value) >= PASSWORD_MIN and not _is_label(value)
    return _is_random(value, trust)


def _is_random(value: str, trust: Trust) -> bool:
    """Return True if a value is random enough for its name; a number has to be long."""
    number = value.isdigit() and len(value) >= KEY_MIN and entropy_bits(value) > 2  # noqa: PLR2004
    return (
        number or looks_random(value, _min_length(trust)) or (trust is Trust.KEY and is_uuid(value))
    )


def _is_label(value: str) -> bool:
    """Return True for a text about passwords or the name of a field: neither is a password."""
    sentence = _TEXT.search(value) or value.endswith((".", ":", "?", "!", "…"))
    return bool(_IDENTIFIER.fullmatch(value) or (" " in value and sentence))


def _is_secret_bare(name: str, trust: Trust, sign: re.Match[str], value: str, after: str) -> bool:
    if _is_placeholder(value) or "(" in value or after == "(" or sign["sign"] == ",":
        return False
    flag = name.startswith("-") and (sign["gap"] is not None or sign["sign"] == "=")
    # The form in a shell or an environment file, unlike the form in a call.
    tight = sign["sign"] == "=" and not sign["space"] and after not in {")", ","}
    tight = tight or (sign["sign"] == ">" and after == "<")
    if trust is Trust.PASSWORD:
        if len(value) >= SECRET_MIN and _is_jumble(value):
            return True  # random letters
        return not _IDENTIFIER.fullmatch(value) and _is_password(name, sign, value, flag, tight)
    if sign["gap"] is not None and not flag:
        # The form in a Dockerfile: ENV API_TOKEN ...; in a sentence, a hash could follow.
        return ("_" in name or not value.islower()) and looks_random(value, KEY_MIN + 1)
    tight = tight or (name.isupper() and sign["sign"] in {"=>", ":="})
    if trust is Trust.SECRET and tight and value.isalpha() and value.islower():
        return len(value) >= SECRET_MIN and after.strip() == ""
    return _is_random(value, trust)


def _is_jumble(value: str) -> bool:
    return value.isalpha() and len(_HUMP.findall(value)) * _HUMP_LETTERS >= len(value)


def _is_password(name: str, sign: re.Match[str], value: str, flag: bool, tight: bool) -> bool:
    if tight:
        return len(value) >= PASSWORD_MIN and not value.isdigit()
    if flag:
        return len(value) >= PASSWORD_MIN and not _TEXT.fullmatch(value)
    if name.lower() == "pass" or is_uuid(value) or is_path(value):  # "--- PASS: TestTheThing"
        return False
    mixed = any(c.isdigit() for c in value) and any(c.isalpha() for c in value)
    if sign["gap"] is not None and not _follows_login(sign):
        return len(value) >= SECRET_MIN and mixed and _is_hard(value)
    return len(value) >= _SPOKEN_MIN and (mixed or bool(_ODD.search(value)))


def _follows_login(sign: re.Match[str]) -> bool:
    """Return True if a login precedes the password, as in .netrc."""
    return "login " in sign.string[max(sign.start() - 80, 0) : sign.start()]


# A punctuation mark beside a letter, in a position that ordinary words do not have.
_ODD = re.compile(r"[a-zA-Z][!@$%^&*+?#]|[!@$%^&*+?#][a-zA-Z]")


def _is_hard(value: str) -> bool:
    """Return True if a value mixes three of: small letters, capitals, digits, marks."""
    kinds = (str.islower, str.isupper, str.isdigit, lambda c: c in "!@$%^&*+?#~/=")
    return sum(any(map(kind, value)) for kind in kinds) > 2  # noqa: PLR2004  three of four


# "Password" in scripts that `candidates.py` does not cover, a sign, and a value.
_OTHER_NAME = re.compile(
    r"(?:密码|密碼|パスワード|비밀번호|ароль|hasło)[\"'”」]?\s{0,3}(?:[:：=＝]|是|为|為|は|это|to)\s{0,3}"
    r"[\"'`“「]?(?P<value>[!-~]{6,128})"
)
_OTHER_CHARACTERS = "密ド밀ьł"  # one of each name: a character is found much faster than a word


def find_named_in_other_scripts(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield passwords that are named in Chinese, Japanese, Korean, Russian or Polish."""
    if not any(char in text for char in _OTHER_CHARACTERS):
        return
    for named in _OTHER_NAME.finditer(text):
        value = named["value"].rstrip(_CLOSING + "\"'`")
        varied = any(map(str.isdigit, value)) or _ODD.search(value) or _is_jumble(value)
        if len(value) >= _SPOKEN_MIN and varied and not _is_placeholder(value):
            yield named.start("value"), named.start("value") + len(value), "password"
