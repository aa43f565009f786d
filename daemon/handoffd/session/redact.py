"""The gate: every text that leaves session/ passes here, and secrets do not.

One table over what is kept, not over what is read. A rule is tried only where one of its hints
stands: nearly always none does.
"""

import re

# kind -> (hints, pattern); each is anchored on what makes the kind recognisable by itself. The
# hints are in lower case.
_RULES: dict[str, tuple[tuple[str, ...], str]] = {
    "private-key": (
        ("-----begin",),
        (
            r"-----BEGIN [A-Z ]*PRIVATE KEY(?: BLOCK)?-----[\s\S]*?(?:-----END "
            r"[A-Z ]*PRIVATE KEY(?: BLOCK)?-----|\Z)"
        ),
    ),
    "aws-key": (
        ("akia", "asia", "abia", "acca"),
        r"\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}\b",
    ),
    "github-token": (
        ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
        r"\b(?:gh[pousr]_[A-Za-z0-9]{36,255}|github_pat_[A-Za-z0-9_]{22,255})",
    ),
    "gitlab-token": (
        ("glpat-", "gldt-", "glrt-", "glcbt-", "glptt-", "glsoat-"),
        r"\bgl(?:pat|dt|rt|cbt|ptt|soat)-[A-Za-z0-9_-]{20,}",
    ),
    "slack-token": (
        ("xox", "xapp-"),
        r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}|\bxapp-\d-[A-Za-z0-9-]{10,}",
    ),
    "slack-webhook": (
        ("hooks.slack",),
        (
            r"https://hooks\.slack\.com/(?:services|workflows|triggers)/"
            r"[A-Za-z0-9+/_-]{20,}"
        ),
    ),
    "stripe-key": (
        ("sk_", "rk_"),
        r"\b[sr]k_(?:live|test|prod)_[A-Za-z0-9]{10,}",
    ),
    "anthropic-key": (
        ("sk-ant-",),
        r"\bsk-ant-[A-Za-z0-9_-]{16,}",
    ),
    "openai-key": (
        ("sk-",),
        r"\bsk-(?:proj-|svcacct-|admin-)?[A-Za-z0-9_-]{20,}",
    ),
    "google-key": (
        ("aiza",),
        r"\bAIza[A-Za-z0-9_-]{35}",
    ),
    "npm-token": (
        ("npm_",),
        r"\bnpm_[A-Za-z0-9]{36}\b",
    ),
    "pypi-token": (
        ("pypi-",),
        r"\bpypi-[A-Za-z0-9_-]{50,}",
    ),
    "jwt": (
        ("eyj",),
        r"\beyJ[A-Za-z0-9_-]{10,1000}\.eyJ[A-Za-z0-9_-]{10,4000}\.[A-Za-z0-9_-]*",
    ),
    "url-password": (
        ("://",),
        r"(?<=://)(?!\[redacted)[^\s/:@]{0,64}:[^\s/@]{3,}(?=@[A-Za-z0-9\[])",
    ),
    "bearer-token": (
        ("bearer ",),
        r"(?<=[Bb]earer )[A-Za-z0-9._~+/=-]{16,}",
    ),
    "hugging-face-token": (
        ("hf_",),
        r"\bhf_[A-Za-z0-9]{30,}",
    ),
    "docker-token": (
        ("dckr_",),
        r"\bdckr_(?:pat|oat)_[A-Za-z0-9_-]{20,}",
    ),
    "sendgrid-key": (
        ("sg.",),
        r"\bSG\.[A-Za-z0-9_-]{16,32}\.[A-Za-z0-9_-]{16,64}",
    ),
    "telegram-token": (
        (":aa",),
        r"\b[0-9]{8,10}:AA[A-Za-z0-9_-]{32,34}",
    ),
    "digitalocean-token": (
        ("_v1_",),
        r"\bdo[opr]_v1_[a-f0-9]{64}",
    ),
    "doppler-token": (
        ("dp.",),
        (
            r"\bdp\.(?:ct|pt|sa|scim|audit|st(?:\.[a-z0-9_-]{2,35})?)\."
            r"[A-Za-z0-9]{40,44}"
        ),
    ),
    "databricks-token": (
        ("dapi",),
        r"\bdapi[a-f0-9]{32}",
    ),
    "vault-token": (
        ("hvs.", "hvb.", "hvr."),
        r"\bhv[sbr]\.[A-Za-z0-9_-]{24,}",
    ),
    "newrelic-key": (
        ("nrak-", "nrjs-", "nrii-", "nral-", "nrra-", "nrbr-", "nrsp-"),
        r"\bNR(?:AK|JS|II|AL|RA|BR|SP)-[A-Za-z0-9]{19,32}",
    ),
    "shopify-token": (
        ("shp",),
        r"\bshp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}",
    ),
    "sonar-token": (
        ("sqa_", "sqp_", "squ_"),
        r"\bsq[apu]_[a-f0-9]{40}",
    ),
    "sourcegraph-token": (
        ("sgp_",),
        r"\bsgp_(?:[a-fA-F0-9]{16}_|local_)?[a-fA-F0-9]{40}",
    ),
    "age-key": (
        ("age-secret",),
        r"\bAGE-SECRET-KEY-1[A-Z0-9]{58}",
    ),
    "atlassian-token": (
        ("atatt3",),
        r"\bATATT3[A-Za-z0-9_=-]{100,}",
    ),
    "linear-key": (
        ("lin_api_",),
        r"\blin_api_[A-Za-z0-9]{40}",
    ),
    "notion-token": (
        ("ntn_", "secret_"),
        r"\b(?:ntn_|secret_)[A-Za-z0-9]{40,}",
    ),
    "supabase-token": (
        ("sbp_", "sb_"),
        r"\bsb(?:p|_secret|_publishable)_[A-Za-z0-9_]{20,}",
    ),
    "sentry-token": (
        ("sntry",),
        r"\bsntry[su]_[A-Za-z0-9+/=_-]{40,}",
    ),
    "grafana-token": (
        ("glsa_", "glc_"),
        r"\bgl(?:sa|c)_[A-Za-z0-9+/=_]{30,}",
    ),
    "postman-key": (
        ("pmak-",),
        r"\bPMAK-[a-f0-9]{24}-[a-f0-9]{34}",
    ),
    "figma-token": (
        ("figd", "figo", "figu"),
        r"\bfig[dou]r?_[A-Za-z0-9_-]{36,}",
    ),
    "rubygems-key": (
        ("rubygems_",),
        r"\brubygems_[a-f0-9]{48}",
    ),
    "crates-token": (
        ("cio",),
        r"\bcio[A-Za-z0-9]{32}\b",
    ),
    "pulumi-token": (
        ("pul-",),
        r"\bpul-[a-f0-9]{40}",
    ),
    "groq-key": (
        ("gsk_",),
        r"\bgsk_[A-Za-z0-9]{40,}",
    ),
    "xai-key": (
        ("xai-",),
        r"\bxai-[A-Za-z0-9]{60,}",
    ),
    "perplexity-key": (
        ("pplx-",),
        r"\bpplx-[A-Za-z0-9]{40,}",
    ),
    "replicate-token": (
        ("r8_",),
        r"\br8_[A-Za-z0-9]{37}",
    ),
    "tavily-key": (
        ("tvly-",),
        r"\btvly-[A-Za-z0-9-]{20,}",
    ),
    "square-token": (
        ("sq0",),
        r"\bsq0(?:atp|csp)-[A-Za-z0-9_-]{22,}",
    ),
    "adafruit-key": (
        ("aio_",),
        r"\baio_[A-Za-z0-9]{28}\b",
    ),
    "odt-key": (
        ("odt_",),
        r"\bodt_[A-Za-z0-9]{32}",
    ),
    "twitch-key": (
        ("live_",),
        r"\blive_[0-9]{6,}_[A-Za-z0-9]{20,}",
    ),
    "azure-key": (
        ("accountkey=",),
        r"(?<=AccountKey=)[A-Za-z0-9+/]{40,}={0,2}",
    ),
    "okta-token": (
        ("ssws ",),
        r"(?<=SSWS )[A-Za-z0-9_-]{38,}",
    ),
    "chat-webhook": (
        ("webhook",),
        (
            r"https://(?:discord(?:app)?\.com/api/webhooks/[0-9]{10,}/"
            r"[A-Za-z0-9_-]{40,}|[a-z0-9.-]*outlook\.office"
            r"(?:365)?\.com/webhook\S{20,})"
        ),
    ),
    "password-hash": (
        ("$2", "$1$", "$5$", "$6$", "$8$", "$krb"),
        (r"\$(?:2[abxy]\$[0-9]{2}|[156]|krb5asrep\$23|8)\$[A-Za-z0-9./$=@:_-]{20,}"),
    ),
    "password-flag": (
        ("-password ",),
        r"""(?<=-[Pp]assword )[^\s'\"\[]{6,}""",
    ),
    "basic-auth": (
        ("-u ",),
        r"""(?<=-u )[\w.@-]{1,64}:[^\s'\"]{4,128}""",
    ),
    "assignment": (
        ("passw", "secret", "key", "token", "credential"),
        (
            r"(?i)(?:passw(?:or)?d|passwd|secret|token|api[_-]?key|access[_-]?key"
            r"""|private[_-]?key|credentials?)(?:[_-]key)?[\"']?\s{0,3}(?P<sign>=>|:=|="""
            r"""|:)\s{0,3}[\"']?(?P<value>[^\s\"',;(){}<>\[\]]{6,})"""
        ),
    ),
}
_compiled = [(kind, hints, re.compile(pattern)) for kind, (hints, pattern) in _RULES.items()]
_HINTS = tuple(hint for hints, _ in _RULES.values() for hint in hints)
_PLACEHOLDER = re.compile(
    r"(?i)\[redacted|^(?:[$#/.]|arn:|https?:|x{4,}|\*{4,}|\.{3,}|<.*>|your[_-].*|example.*|changeme|placeholder|true|false"
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
    lowered = text.lower()
    found: list[str] = []
    for kind, hints, pattern in _compiled:
        for hint in hints:
            if hint in lowered:
                text, count = _mask(kind, pattern, text)
                found += [kind] * count
                break
    return text, tuple(found)


def _mask(kind: str, pattern: re.Pattern[str], text: str) -> tuple[str, int]:
    if kind != "assignment":
        return pattern.subn(f"[redacted:{kind}]", text)
    masked = 0

    def mask_value(match: re.Match[str]) -> str:
        nonlocal masked
        value = match["value"]
        if _PLACEHOLDER.search(value) or not _looks_secret(value, match["sign"]):
            return match[0]
        masked += 1
        return match[0][: -len(value)] + "[redacted:assignment]"

    return pattern.sub(mask_value, text), masked


def _looks_secret(value: str, sign: str) -> bool:
    """Tell a value from a word: prose says "password: required", a leak has digits or length."""
    if value.isdigit() or len(set(value)) <= 2:  # noqa: PLR2004  "xxxxxxxx"
        return False
    if sign != ":":
        return True
    return any(c.isdigit() for c in value) or not value.isalpha() or len(value) >= 20  # noqa: PLR2004
