"""The gate: every text that leaves session/ passes here, and secrets do not.

One compiled alternation over what is kept, not over what is read.
"""

import re

# kind -> pattern; each is anchored on what makes the kind recognisable by itself.
_RULES: dict[str, str] = {
    "private-key": (
        r"-----BEGIN [A-Z ]*PRIVATE KEY(?: BLOCK)?-----[\s\S]*?"
        r"(?:-----END [A-Z ]*PRIVATE KEY(?: BLOCK)?-----|\Z)"
    ),
    "aws-key": r"\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}\b",
    "github-token": r"\b(?:gh[pousr]_[A-Za-z0-9]{36,255}|github_pat_[A-Za-z0-9_]{22,255})",
    "gitlab-token": r"\bgl(?:pat|dt|rt|cbt|ptt|soat)-[A-Za-z0-9_-]{20,}",
    "slack-token": r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}|\bxapp-\d-[A-Za-z0-9-]{10,}",
    "slack-webhook": r"https://hooks\.slack\.com/(?:services|workflows|triggers)/[A-Za-z0-9+/_-]{20,}",
    "stripe-key": r"\b[sr]k_(?:live|test|prod)_[A-Za-z0-9]{10,}",
    "anthropic-key": r"\bsk-ant-[A-Za-z0-9_-]{16,}",
    "openai-key": r"\bsk-(?:proj-|svcacct-|admin-)?[A-Za-z0-9_-]{20,}",
    "google-key": r"\bAIza[A-Za-z0-9_-]{35}",
    "npm-token": r"\bnpm_[A-Za-z0-9]{36}\b",
    "pypi-token": r"\bpypi-[A-Za-z0-9_-]{50,}",
    # Bounded, so that a run of beginnings does not cost its square.
    "jwt": r"\beyJ[A-Za-z0-9_-]{10,1000}\.eyJ[A-Za-z0-9_-]{10,4000}\.[A-Za-z0-9_-]*",
    "url-password": r"(?<=://)(?!\[redacted)[^\s/:@]{0,64}:[^\s/@]{3,}(?=@[A-Za-z0-9\[])",
    "bearer-token": r"(?<=[Bb]earer )[A-Za-z0-9._~+/=-]{16,}",
    "hugging-face-token": r"\bhf_[A-Za-z0-9]{30,}",
    "basic-auth": r"(?<=-u )[\w.@-]{1,64}:[^\s'\"]{4,128}",
    "assignment": (
        r"(?i)(?:passw(?:or)?d|passwd|secret|token|api[_-]?key|access[_-]?key|private[_-]?key"
        r"|credentials?)(?:[_-]key)?[\"']?\s{0,3}(?P<sign>=>|:=|=|:)\s{0,3}[\"']?"
        r"(?P<value>[^\s\"',;(){}<>\[\]]{6,})"
    ),
}
# Without one of these no rule can match; most texts have none.
_HINTS = (
    "akia", "asia", "abia", "acca", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-",
    "gldt-", "glrt-", "glcbt-", "glptt-", "glsoat-", "xox", "xapp-", "hooks.slack", "sk_", "rk_",
    "sk-", "aiza", "npm_", "pypi-", "eyj", "://", "bearer ", "-----begin", "passw", "secret", "key",
    "token", "credential", "hf_", "-u ",
)  # fmt: skip
_LITERAL = {kind: pattern for kind, pattern in _RULES.items() if kind != "assignment"}
_table = re.compile(
    "|".join(f"(?P<r{number}>{pattern})" for number, pattern in enumerate(_LITERAL.values()))
)
_kinds = tuple(_LITERAL)
_assignment = re.compile(_RULES["assignment"])
_PLACEHOLDER = re.compile(
    r"(?i)\[redacted|^(?:\$|x{4,}|\*{4,}|\.{3,}|<.*>|your[_-].*|example.*|changeme|placeholder|true|false"
    r"|none|null|undefined|os\.environ.*|process\.env.*|getenv.*|env\..*|string|required|optional)"
)


def may_hold_secret(text: str) -> bool:
    """Tell quickly that there is nothing to look for."""
    lowered = text.lower()
    for hint in _HINTS:  # noqa: SIM110  any() with a generator takes three times as long
        if hint in lowered:
            return True
    return False


def redact(text: str) -> tuple[str, tuple[str, ...]]:
    """Return the text with secrets masked, and the kinds that were found."""
    if not may_hold_secret(text):
        return text, ()
    found: list[str] = []

    def mask(match: re.Match[str]) -> str:
        kind = _kinds[int(str(match.lastgroup)[1:])]
        found.append(kind)
        return f"[redacted:{kind}]"

    def mask_value(match: re.Match[str]) -> str:
        value = match["value"]
        if _PLACEHOLDER.search(value) or not _looks_secret(value, match["sign"]):
            return match[0]
        found.append("assignment")
        return match[0][: -len(value)] + "[redacted:assignment]"

    text = _table.sub(mask, text)
    return _assignment.sub(mask_value, text), tuple(found)


def _looks_secret(value: str, sign: str) -> bool:
    """Tell a value from a word: prose says "password: required", a leak has digits or length."""
    if value.isdigit():
        return False
    if sign != ":":
        return True
    return any(c.isdigit() for c in value) or not value.isalpha() or len(value) >= 20  # noqa: PLR2004
