"""Secrets that only their name gives away: `DB_PASSWORD=...`, `"token": "..."`, `--api-key ...`.

A name says how likely its value is a secret, and the value has to agree: a password may be a word
if it is written as one writes a value; a token or a key has to look drawn by lot.
"""

import re
from collections.abc import Iterator
from enum import Enum

from handoffd.redaction.kinds import TOKENS
from handoffd.redaction.randomness import bits, drawn, is_path, is_uuid

PASSWORD_MIN = 4
SECRET_MIN = 8
KEY_MIN = 16
_SPOKEN_MIN = 6  # of a password in a sentence
# A value is read so far to be judged, and to its end if it is a secret.
_JUDGED = 256
_BACK = 48  # characters of a name on either side of the spot

_HEAD = re.compile(r"[\w.-]*", re.ASCII)
_TAIL = re.compile(r"[A-Za-z0-9_ñ.$-]*")
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-zñ]+|\d+")

_QUOTE = r"\\{0,3}(?:[\"'`]|&quot;|%22)"
# What stands between a name and its value; `between` is what closes the name.
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
# Up to whatever begins next: "&name=", ";Name=", a quote, a tag, a line.
_BARE = re.compile(rf"(?:(?![&;,][\w. %-]{{1,30}}=)(?!%26|\\[nrt])[^\s\"'`<>]){{1,{_JUDGED}}}")
_TO_SPACE = re.compile(r"[^\s\"'`<>]*")
_CLOSING = ",;.:)]}\\*"
# The one secret of which the length is known though nothing else is.
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
# In any place. Every alternative begins with a letter, so that most places are passed at once.
_FILLED = re.compile(
    r"example|placeholder|change[_-]?me|change[_-]?it|your[_-]?[a-z]|_here\b|-here\b|insert[_-]"
    r"|replace[_-]|redacted|xxxxx|\*\*\*\*|dummy|foo\b(?<=\bfoo)|bar\b(?<=\bbar)|lorem"
    r"|fake|\(\)(?<=\w\(\))"
)
_TELLING = 96  # characters of a value that show whether it is one


def _is_placeholder(value: str) -> bool:
    telling = value[:_TELLING]
    return bool(_PLACEHOLDER.match(telling) or _FILLED.search(telling.lower()))


# The words of a message or a form about passwords.
_TEXT = re.compile(
    r"(?i)\b(?:the|your|enter|please|must|should|is|are|was|not|and|or|for|with|confirm|forgot"
    r"|reset|invalid|wrong|incorrect|new|missing|required|at least|characters?|field|user|login"
    r"|cannot|do|does|has|have|this|that|from|in|of|to|a|an|flag|option|argument|stdin|prompt)\b"
)
# A capital with one small letter at most: a name of several words has hardly any.
_HUMP = re.compile(r"(?<![A-Z])[A-Z][a-z]?(?![a-z])")
# Of letters drawn by lot there is one in so many, or more.
_HUMP_LETTERS = 3.5
# The name of a field, a route or a path, where a value could be.
_IDENTIFIER = re.compile(
    r"/.*|[a-z]+(?:_[a-z]+)+|[a-zA-Z]+(?:[/#:][a-zA-Z_-]+)+|[A-Za-z_]\w*(?:(?:\.|->|::)[A-Za-z_]\w*)+"
    r"|(?i:(?:\w*[_ -])?(?:passw(?:or[dt]|d)|pwd|pass|kennwort|contraseña|senha))",
    re.ASCII,
)


class Trust(Enum):
    """How much a name says about its value."""

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
_ENDING = 24  # characters of a word that tell whether it is one of these


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Words of names that hold no secret though they end in "key" or "token".
_HARMLESS = _words(
    "public pub primary foreign cache cached sort partition hash hashed next prev page cursor"
    " continuation sync max min num count total input output prompt completion reasoning stop eos"
    " bos pad unk sep cls mask special idempotency i18n translation object row column index group"
    " map dict unique hot short lookup dedupe json yaml config query route registry label"
    " placeholder title message error hint help regex pattern lexer parser syntax ssh host known"
    " tab arrow escape enter meta ctrl shift alt modifier composite surrogate natural shard"
    " routing feature flag resume design sentinel"
)
# What may follow the word that counts; any other word makes it the name of something else.
_SUFFIXES = _words(
    "value key base b64 base64 hex string raw plain plaintext prod production dev development"
    " stage staging test live main default old new current backup id sid secret us eu user admin"
    " root db api app env v pw token header local"
)
# A key of these is a secret; of anything else, only if its value looks like one at length.
_KEY_OF = _words(
    "api access secret private auth account shared preshared encryption signing master license"
    " service session client consumer app admin subscription deploy stream write storage webhook"
    " jwt hmac aes application"
)
_KEY_OF_BEFORE = re.compile(
    r"(?i)\b(?:api|access|secret|private|auth|account|licen[sc]e|encryption|master|unseal)[ _-]?\Z"
)


def _trust(name: str, before: str) -> Trust:
    """Return how much a name promises; `before` is the text in front of it, for "secret key:"."""
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


def assigned(text: str, spot: int) -> Iterator[tuple[int, int, str]]:
    """Find the value that the name at `spot` gives away."""
    found = _assigned(text, spot) or _alone(text, spot)
    if found:
        yield found


def _assigned(text: str, spot: int) -> tuple[int, int, str] | None:
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
# The table of kinds judges these by their shape: "key-" and 31 digits are no key of Mailgun's.
_OPENINGS = frozenset(opening for row in TOKENS for opening in row.openings.split())
_NAMES_OF_HASHES = _words(
    "commit sha sha1 sha256 sha512 md5 checksum digest fingerprint uuid guid id"
)


def _alone(text: str, spot: int) -> tuple[int, int, str] | None:
    """Find a random value that ends a line, if the name before it is all else on this line."""
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
        # In "Password:" the quote behind the sign ends a text.
        before = sign.start() - len(name)
        ends = not sign["between"] and text.endswith(quoted["quote"], 0, max(before, 0))
        agrees = not ends and _agrees_quoted(name, trust, sign, quoted["value"].rstrip("\"'\\"))
        return _whole(quoted, _TO_QUOTE[quoted["quote"][-1]]) if agrees else None
    bare = _BARE.match(text, start)
    value = bare[0].rstrip(_CLOSING) if bare else ""
    end = start + len(value)
    if bare and value and _agrees_bare(name, trust, sign, value, text[end : end + 1]):
        return (start, end) if len(bare[0]) < _JUDGED else _whole(bare, _TO_SPACE)
    return None


def _whole(value: re.Match[str], rest: re.Pattern[str]) -> tuple[int, int]:
    """Return where a value begins, and where it ends, however long it is."""
    start, end = value.span("value" if value.re.groups else 0)
    longer = rest.match(value.string, end) if end - start >= _JUDGED else None
    return start, longer.end() if longer else end


def _least(trust: Trust) -> int:
    return KEY_MIN if trust is Trust.KEY else SECRET_MIN


def _agrees_quoted(name: str, trust: Trust, sign: re.Match[str], value: str) -> bool:
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
    """Return True if a value is random enough for its name; a number has to be a long one."""
    number = value.isdigit() and len(value) >= KEY_MIN and bits(value) > 2  # noqa: PLR2004
    return number or drawn(value, _least(trust)) or (trust is Trust.KEY and is_uuid(value))


def _is_label(value: str) -> bool:
    """Return True for a text about passwords or the name of a field, which are no password."""
    sentence = _TEXT.search(value) or value.endswith((".", ":", "?", "!", "…"))
    return bool(_IDENTIFIER.fullmatch(value) or (" " in value and sentence))


def _agrees_bare(name: str, trust: Trust, sign: re.Match[str], value: str, after: str) -> bool:
    if _is_placeholder(value) or "(" in value or after == "(" or sign["sign"] == ",":
        return False
    flag = name.startswith("-") and (sign["gap"] is not None or sign["sign"] == "=")
    # As in a shell or an environment file, and not as in a call.
    tight = sign["sign"] == "=" and not sign["space"] and after not in {")", ","}
    tight = tight or (sign["sign"] == ">" and after == "<")
    if trust is Trust.PASSWORD:
        if len(value) >= SECRET_MIN and _is_jumble(value):
            return True  # letters drawn by lot
        return not _IDENTIFIER.fullmatch(value) and _is_password(name, sign, value, flag, tight)
    if sign["gap"] is not None and not flag:
        # As in a Dockerfile: ENV API_TOKEN ...; in a sentence, a hash could follow.
        return ("_" in name or not value.islower()) and drawn(value, KEY_MIN + 1)
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
    """Return True if a login stands before the password, as in .netrc."""
    return "login " in sign.string[max(sign.start() - 80, 0) : sign.start()]


# A mark inside of a word, where no word has one.
_ODD = re.compile(r"[a-zA-Z][!@$%^&*+?#]|[!@$%^&*+?#][a-zA-Z]")


def _is_hard(value: str) -> bool:
    """Return True if three of these are mixed: small letters, capitals, digits, marks."""
    kinds = (str.islower, str.isupper, str.isdigit, lambda c: c in "!@$%^&*+?#~/=")
    return sum(any(map(kind, value)) for kind in kinds) > 2  # noqa: PLR2004  three of four


# "Password" in scripts of which the candidates know nothing, a sign, and a value.
_OTHER_NAME = re.compile(
    r"(?:密码|密碼|パスワード|비밀번호|ароль|hasło)[\"'”」]?\s{0,3}(?:[:：=＝]|是|为|為|は|это|to)\s{0,3}"
    r"[\"'`“「]?(?P<value>[!-~]{6,128})"
)
_OTHER_CHARACTERS = "密ド밀ьł"  # of each: a character is found far quicker than a word


def named_in_other_scripts(text: str) -> Iterator[tuple[int, int, str]]:
    """Find passwords that are named in Chinese, Japanese, Korean, Russian or Polish."""
    if not any(char in text for char in _OTHER_CHARACTERS):
        return
    for named in _OTHER_NAME.finditer(text):
        value = named["value"].rstrip(_CLOSING + "\"'`")
        varied = any(map(str.isdigit, value)) or _ODD.search(value) or _is_jumble(value)
        if len(value) >= _SPOKEN_MIN and varied and not _is_placeholder(value):
            yield named.start("value"), named.start("value") + len(value), "password"
