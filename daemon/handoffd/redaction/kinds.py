"""The table of secrets: the opening of each kind, and a pattern for the rest.

The rows are facts about formats, in alphabetical order inside each group. A kind is the text that
replaces the secret for a reader, so several rows may share one. `candidates.py` builds its search
from the table.
"""

from typing import NamedTuple

_UUID = r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}"
_END = r"(?![A-Za-z0-9])"


class Token(NamedTuple):
    """A secret that is recognised by its first characters."""

    kind: str
    openings: str  # separated by a space; "·" is a space inside an opening
    rest: str  # a pattern for the text after the opening


class TokenShape(NamedTuple):
    """A secret that is recognised by a hint in its middle, and by the text after it."""

    kind: str
    hint: str
    ahead: str  # a pattern for the text after the hint
    back: range  # the possible numbers of characters before the hint
    pattern: str


TOKENS = (
    # Clouds
    Token("adobe-key", "p8e-", rf"[a-z0-9]{{32}}{_END}"),
    Token("alibaba-key", "LTAI", rf"(?:[A-Za-z0-9]{{12}}|[A-Za-z0-9]{{16,20}}){_END}"),
    Token("aws-key", "AKIA ASIA ABIA ACCA", rf"[A-Z2-7]{{16}}{_END}"),
    Token("aws-key", "A3T", rf"[A-Z0-9]{{17}}{_END}"),
    Token("aws-key", "da2-", rf"[a-z0-9]{{26}}{_END}"),
    Token("aws-key", "ABSK", r"[A-Za-z0-9+/]{109,269}={0,2}"),
    Token("aws-key", "bedrock-api-key-", r"YmVkcm9jay5hbWF6b25hd3MuY29t[\w+/=-]*"),
    Token("aws-key", "amzn.mws.", _UUID),
    Token("cloudflare-key", "v1.0-", r"[a-f0-9]{24}-[a-f0-9]{100,}"),
    Token("cloudflare-key", "cfut_ cfat_ cfk_", r"[A-Za-z0-9_-]{32,}"),
    Token("digitalocean-token", "dop_v1_ doo_v1_ dor_v1_", rf"[a-f0-9]{{64}}{_END}"),
    Token("fly-token", "fo1_", r"[\w-]{43}(?![\w-])"),
    Token("fly-token", "fm1r_ fm1a_ fm2_", r"[A-Za-z0-9+/=,_-]{60,}"),
    Token("google-key", "AIza", r"[\w-]{35}(?![\w-])"),
    Token("google-key", "AQ.Ab8", r"[\w-]{40,}"),
    Token("google-oauth", "ya29.", r"[\w-]{20,}(?:\.[\w-]+)*"),
    Token("google-oauth", "GOCSPX-", r"[\w-]{28}(?![\w-])"),
    Token("heroku-key", "HRKU-", rf"(?:AA[\w-]{{58}}|{_UUID})(?![\w-])"),
    Token("netlify-token", "nfp_ nfc_ nfo_ nfu_ nfb_", r"[A-Za-z0-9]{32,}"),
    Token("openshift-token", "sha256~", r"[\w-]{43}(?![\w-])"),
    Token("planetscale-token", "pscale_tkn_ pscale_oauth_ pscale_pw_", r"[\w=.-]{32,64}(?![\w-])"),
    Token("render-key", "rnd_", r"[A-Za-z0-9]{24,}"),
    Token("tencent-key", "AKID", rf"[A-Za-z0-9]{{32}}{_END}"),
    Token("vercel-token", "vcp_ vci_ vca_ vcr_ vck_ vercel_blob_rw_", r"[A-Za-z0-9_]{24,}"),
    Token("yandex-key", "t1.", r"[\w-]{20,}={0,2}\.[\w-]{86}={0,2}"),
    Token("yandex-key", "AQVN", r"[\w-]{35,38}(?![\w-])"),
    # Forges, registries and builds
    Token("artifactory-key", "AKCp cmVmdGtuOj", r"[A-Za-z0-9]{50,}"),
    Token("atlassian-token", "ATATT3 ATCTT3", r"[\w=-]{180,}"),
    Token("atlassian-token", "ATBB", rf"[A-Za-z0-9]{{32}}{_END}"),
    Token("atlassian-token", "ATTA", r"[a-fA-F0-9]{60,}"),
    Token("buildkite-token", "bkua_ bkaj_ bkct_ bkpat_", rf"[a-zA-Z0-9]{{40}}{_END}"),
    Token("circleci-token", "CCIPAT_ CCIPRJ_", rf"[A-Za-z0-9]{{22}}_[a-f0-9]{{40}}{_END}"),
    Token("clojars-token", "CLOJARS_", rf"[a-z0-9]{{60}}{_END}"),
    Token("crates-token", "cio", rf"[A-Za-z0-9]{{32}}{_END}"),
    Token("deno-token", "ddp_ ddo_", rf"[A-Za-z0-9]{{36}}{_END}"),
    Token("docker-token", "dckr_pat_ dckr_oat_", r"[\w-]{20,}"),
    Token("github-token", "ghp_ gho_ ghu_ ghs_ ghr_", r"[A-Za-z0-9_.-]{36,}"),
    Token("github-token", "github_pat_", rf"[A-Za-z0-9]{{22}}_[A-Za-z0-9]{{59}}{_END}"),
    Token(
        "gitlab-token",
        "glpat- gldt- glrt- glcbt- glsoat- glft- glimt- glffct- glwt-",
        r"(?:[\w-]{20,26}(?![\w-])|[\w-]{27,300}\.[0-9a-z]{2}\.?[0-9a-z]{7,9}(?![\w-]))",
    ),
    Token("gitlab-token", "GR1348941", r"(?=\d{0,19}[A-Za-z_-])[\w-]{20}(?![\w-])"),
    Token("gitlab-token", "glptt-", r"[0-9a-f]{40}(?![\w-])"),
    Token("gitlab-token", "glagent- gloas-", r"[\w-]{50,64}(?![\w-])"),
    Token("harness-token", "pat. sat.", r"[\w-]{22}\.[A-Za-z0-9]{24}\.[A-Za-z0-9]{20}"),
    Token("npm-token", "npm_", rf"[A-Za-z0-9]{{36}}{_END}"),
    Token("octopus-key", "API-", rf"[A-Z0-9]{{25,30}}{_END}"),
    Token("infracost-key", "ico-", rf"[A-Za-z0-9]{{32}}{_END}"),
    Token("packagist-token", "packagist_", r"(?:[ou][ru]t|ack)_[A-Za-z0-9]{40,}"),
    Token("pulumi-token", "pul-", rf"[a-f0-9]{{40}}{_END}"),
    Token("pypi-token", "pypi-", r"AgE(?:IcHlwaS5vcmc|NdGVzdC5weXBpLm9yZw)[\w-]{85,}"),
    Token("rubygems-key", "rubygems_", rf"[a-f0-9]{{48}}{_END}"),
    Token("snyk-token", "snyk_uat. snyk_sat.", r"[\w.-]{24,}"),
    Token("sonar-token", "sqa_ sqp_ squ_", rf"[a-f0-9]{{40}}{_END}"),
    Token(
        "sourcegraph-token", "sgp_", rf"(?:[a-fA-F0-9]{{16}}_|local_){{0,2}}[a-fA-F0-9]{{40}}{_END}"
    ),
    Token("sourcegraph-token", "slk_", rf"[a-f0-9]{{64}}{_END}"),
    Token("stackhawk-key", "hawk.", r"[\w-]{20}\.[\w-]{20}"),
    # Safes
    Token("1password-token", "ops_eyJ", r"[A-Za-z0-9+/_-]{200,}={0,3}"),
    Token("1password-token", "A3-", r"[A-Z0-9]{6}(?:-[A-Z0-9]{5,11}){4,5}"),
    Token("age-key", "AGE-SECRET-KEY-1", rf"[QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L]{{58}}{_END}"),
    Token("doppler-token", "dp.ct. dp.pt. dp.sa. dp.scim. dp.audit.", r"[A-Za-z0-9]{40,}"),
    Token(
        "doppler-token",
        "dp.st. dp.st.dev. dp.st.stg. dp.st.prd. dp.st.ci. dp.st.test. dp.st.prod. dp.st.staging.",
        r"[A-Za-z0-9]{40,}",
    ),
    Token("infisical-token", "st.", r"[a-f0-9-]{24,36}\.[a-f0-9]{32}\.[a-f0-9]{32}"),
    Token("vault-token", "hvs. hvb. hvr.", r"[\w-]{90,}"),
    # Models
    Token(
        "anthropic-key",
        "sk-ant-",
        r"(?:(?:api|admin)\d\d-[\w-]{93}AA|(?:oat|ort|sid)\d\d-[\w-]{80,})(?![\w-])",
    ),
    Token("apify-token", "apify_api_", r"[A-Za-z0-9]{30,}"),
    Token("cerebras-key", "csk-", rf"[a-z0-9]{{48}}{_END}"),
    Token("elevenlabs-key", "sk_", rf"[a-f0-9]{{40,64}}{_END}"),
    Token("firecrawl-key", "fc-", rf"[a-f0-9]{{32}}{_END}"),
    Token("groq-key", "gsk_", rf"[A-Za-z0-9]{{52}}{_END}"),
    Token("hugging-face-token", "hf_ api_org_", rf"[A-Za-z0-9]{{34}}{_END}"),
    Token("jina-key", "jina_", r"[A-Za-z0-9]{40,}"),
    Token("langfuse-key", "sk-lf-", _UUID),
    Token("langsmith-key", "lsv2_pt_ lsv2_sk_", rf"[a-f0-9]{{32}}_[a-f0-9]{{10}}{_END}"),
    Token("nvidia-key", "nvapi-", r"[\w-]{40,}"),
    Token("openai-key", "sk-proj- sk-svcacct- sk-admin- sk-None-", r"[\w-]{40,}"),
    Token("openai-key", "sk-", r"[A-Za-z0-9]{32,}[\w-]*"),
    Token("openrouter-key", "sk-or-", r"(?:v\d-)?[a-f0-9]{40,}"),
    Token("perplexity-key", "pplx-", rf"[A-Za-z0-9]{{48}}{_END}"),
    Token("pinecone-key", "pcsk_", r"[\w-]{40,}"),
    Token("replicate-token", "r8_", r"[A-Za-z0-9]{37,}"),
    Token("runpod-key", "rpa_", r"[A-Z0-9]{32,}[A-Za-z0-9]*"),
    Token("tavily-key", "tvly-", r"[A-Za-z0-9-]{20,}"),
    Token("together-key", "tgp_v1_", r"[\w-]{32,}"),
    Token("wandb-key", "wandb_v1_", r"\w{32,}"),
    Token("xai-key", "xai-", r"\w{80}(?!\w)"),
    # Data
    Token("databricks-token", "dapi", rf"[a-f0-9]{{32}}(?:-\d)?{_END}"),
    Token("mongodb-key", "mdb_sa_sk_", r"[\w-]{32,}"),
    Token("neon-key", "napi_", r"[a-z0-9]{50,}"),
    Token("neon-key", "npg_", r"[A-Za-z0-9]{12,}"),
    Token("supabase-token", "sbp_ sb_secret_ sb_publishable_", r"[\w-]{20,}"),
    # Messages and mail
    Token("brevo-key", "xkeysib- xsmtpsib-", r"[a-f0-9]{64}-[A-Za-z0-9]{16}(?![A-Za-z0-9])"),
    Token("mailersend-key", "mlsn.", r"[a-f0-9]{60,}"),
    Token("mailgun-key", "key-", rf"[a-f0-9]{{32}}{_END}"),
    Token("mandrill-key", "md-", r"(?=\w{0,22}\d)(?=\w{0,22}[A-Z])[\w-]{22}(?![\w-])"),
    Token("onesignal-key", "os_v2_app_ os_v2_org_", r"[a-z0-9]{60,}"),
    Token(
        "resend-key", "re_", r"(?=\w{0,31}\d)(?=\w{0,31}[A-Z])[A-Za-z0-9]{6,10}_[A-Za-z0-9]{20,}"
    ),
    Token("sendgrid-key", "SG.", r"[\w-]{20,24}\.[\w-]{39,50}(?![\w-])"),
    Token("slack-token", "xoxb-", r"\d{8,14}-(?:\d{8,14}-)?[A-Za-z0-9-]{18,40}"),
    Token("slack-token", "xoxp-", r"(?:\d{10,13}-){2,3}[A-Za-z0-9]{24,34}(?![A-Za-z0-9])"),
    Token("slack-token", "xoxc- xoxo- xoxs-", r"(?:\d{1,14}-){2,3}[A-Za-z0-9]{10,80}"),
    Token("slack-token", "xoxa- xoxr-", r"(?:\d-)?(?=\w{0,40}\d)[0-9A-Za-z-]{8,80}"),
    Token("slack-token", "xoxd-", r"[\w%/+-]{40,}"),
    Token("slack-token", "xoxe-", r"\d-[A-Za-z0-9]{100,}"),
    Token("slack-token", "xoxe.", r"xox[bp]-\d-[A-Za-z0-9]{140,}"),
    Token("slack-token", "xapp-", r"\d-[A-Z0-9]+-\d+-[a-z0-9]+"),
    Token("twilio-key", "SK", rf"[0-9a-f]{{32}}{_END}"),
    # Money
    Token("bitcoin-key", "xprv yprv zprv tprv", rf"[1-9A-HJ-NP-Za-km-z]{{107,108}}{_END}"),
    Token(
        "braintree-token", "access_token$", r"(?:production|sandbox)\$[a-z0-9]{16}\$[a-f0-9]{32}"
    ),
    Token("easypost-key", "EZAK EZTK", rf"[A-Za-z0-9]{{54}}{_END}"),
    Token(
        "flutterwave-key",
        "FLWSECK- FLWSECK_TEST-",
        r"(?:[a-fA-F0-9]{12}|[a-fA-F0-9]{32}-X)(?![A-Za-z0-9])",
    ),
    Token("plaid-token", "access-sandbox- access-development- access-production-", _UUID),
    Token("razorpay-key", "rzp_live_ rzp_test_", r"[A-Za-z0-9]{14,}"),
    Token("shippo-token", "shippo_live_ shippo_test_", rf"[a-fA-F0-9]{{40}}{_END}"),
    Token("shopify-token", "shpat_ shpca_ shppa_ shpss_ shptka_", rf"[a-fA-F0-9]{{32}}{_END}"),
    Token("square-token", "sq0atp- sq0csp- sq0atb-", r"[\w-]{22,}"),
    Token(
        "stripe-key", "sk_live_ sk_test_ sk_prod_ rk_live_ rk_test_ rk_prod_", r"[A-Za-z0-9]{10,}"
    ),
    Token("stripe-key", "whsec_", r"[A-Za-z0-9+/=]{24,}"),
    # Watching
    Token(
        "dynatrace-token",
        "dt0c01. dt0s01. dt0s02. dt0s16.",
        rf"[A-Z0-9]{{8,24}}\.[A-Z0-9]{{64}}{_END}",
    ),
    Token("grafana-token", "glsa_", rf"[A-Za-z0-9]{{32}}_[a-fA-F0-9]{{8}}{_END}"),
    Token("grafana-token", "glc_", r"[A-Za-z0-9+/]{32,400}={0,3}"),
    Token("grafana-token", "eyJrIjoi", r"[A-Za-z0-9+/]{60,400}={0,3}"),
    Token("honeycomb-key", "hcaik_ hcaic_ hcxik_ hcxmk_", r"[a-z0-9]{50,}"),
    Token("launchdarkly-key", "sdk- api-", _UUID),
    Token(
        "newrelic-key",
        "NRAK- NRJS- NRII- NRAL- NRRA- NRBR- NRSP- NRAA- NRIQ-",
        r"[\w-]{19,42}(?![\w-])",
    ),
    Token("pixie-key", "px-api- px-dep-", _UUID),
    Token("posthog-key", "phx_ phs_", r"[A-Za-z0-9]{32,}"),
    Token("sentry-token", "sntryu_ sntrya_ sntryi_", rf"[a-f0-9]{{64}}{_END}"),
    Token(
        "sentry-token", "sntrys_", rf"eyJ[A-Za-z0-9+/-]{{40,400}}={{0,2}}_[A-Za-z0-9+/]{{43}}{_END}"
    ),
    # Everything else that has a prefix
    Token("adafruit-key", "aio_", rf"[A-Za-z0-9]{{28}}{_END}"),
    Token("contentful-token", "CFPAT-", r"[\w-]{40,}"),
    Token("defined-key", "dnkey-", r"[\w=-]{26}-[\w=-]{52}(?![\w-])"),
    Token("dropbox-token", "sl. sl.u.", r"[\w=-]{130,}"),
    Token("duffel-token", "duffel_live_ duffel_test_", r"[\w=-]{43}(?![\w-])"),
    Token("facebook-token", "EAA", r"(?!\w?(\w{4})\1)(?=\w{0,60}\d)[A-Za-z0-9]{60,}"),
    Token("fleetbase-key", "flb_live_ flb_test_", rf"[A-Za-z0-9]{{20}}{_END}"),
    Token("flexport-key", "shltm_", rf"[\w-]{{40}}{_END}"),
    Token("figma-token", "figd_ figo_ figu_ figdr_ figor_ figur_", r"[\w-]{40}(?![\w-])"),
    Token("frameio-token", "fio-u-", r"[\w=-]{64}(?![\w-])"),
    Token("hubspot-token", "pat-na1- pat-na2- pat-na3- pat-eu1- pat-ap1-", _UUID),
    Token("intra42-secret", "s-s4t2ud- s-s4t2af-", rf"[a-f0-9]{{64}}{_END}"),
    Token("instagram-token", "IGQV IGAA", r"[\w-]{60,}"),
    Token("intercom-token", "dG9rOg", r"[A-Za-z0-9+/]{40,}={0,2}"),
    Token("linear-key", "lin_api_ lin_oauth_ lin_wh_", r"[A-Za-z0-9]{40,64}(?![A-Za-z0-9])"),
    Token("linkedin-secret", "WPL_AP1.", r"[\w.=-]{12,}"),
    Token("mapbox-token", "sk.eyJ pk.eyJ tk.eyJ", r"[\w-]{20,}\.[\w-]{20,}"),
    Token("nostr-key", "nsec1", rf"[qpzry9x8gf2tvdw0s3jn54khce6mua7l]{{58}}{_END}"),
    Token("notion-token", "ntn_ secret_", r"[A-Za-z0-9]{40,}"),
    Token("odt-key", "odt_", r"[A-Za-z0-9]{32,}"),
    Token("postman-key", "PMAK-", rf"[a-f0-9]{{24}}-[a-f0-9]{{34}}{_END}"),
    Token("prefect-key", "pnu_ pnb_", rf"[a-zA-Z0-9]{{36}}{_END}"),
    Token(
        "pubnub-key",
        "sub-c- pub-c- sec-c-",
        r"(?:\w{8}(?:-\w{4}){3}-\w{12}|[A-Za-z0-9]{48})(?![A-Za-z0-9])",
    ),
    Token("readme-key", "rdme_", rf"[a-z0-9]{{70}}{_END}"),
    Token("scalingo-token", "tk-us-", r"[\w-]{48}"),
    Token("settlemint-token", "sm_aat_ sm_pat_ sm_sat_", rf"[A-Za-z0-9]{{16}}{_END}"),
    Token("tailscale-key", "tskey-", r"[a-z]{2,12}-[A-Za-z0-9]{8,}(?:-[A-Za-z0-9]{12,})?"),
    Token("teamwork-token", "tkn.v1_", r"[A-Za-z0-9+/]{50,}={0,2}"),
    Token("twitch-key", "live_", r"\d{6,}_[A-Za-z0-9]{26,}"),
    Token("twitter-token", "AAAAAAAAAAAAAAAAAAAA", r"(?=\S{0,40}%)[A-Za-z0-9%]{60,}"),
    Token("typeform-token", "tfp_", r"[\w.=-]{59}(?![\w-])"),
    Token("voiceflow-key", "VF.DM. VF.WS.", rf"[a-f0-9]{{24}}\.[A-Za-z0-9]{{16}}{_END}"),
    # Whole formats
    Token("jwt", "eyJ", r"(?<![_-]eyJ)[\w-]{10,}\.(?:eyJ|[\w-]*\.)[\w-]{8,}(?:\.[\w-]*){0,3}"),
    Token("password-hash", "$2a$ $2b$ $2x$ $2y$", r"\d{2}\$[A-Za-z0-9./]{40,}"),
    Token("password-hash", "$1$ $5$ $6$ $8$ $9$ $apr1$", r"[A-Za-z0-9./$=@:_-]{20,}"),
    Token("password-hash", "$krb5", r"[a-z]{2,8}\$\d{2}\$[\w.@$:*/-]{20,}"),
    Token("password-hash", "$argon2 $pbkdf2 $scrypt", r"[\w-]*\$[\w=,./+$-]{20,}"),
)

# The openings are words, in upper or lower case. Only the named part is secret; redact.py checks it
# by its name.
WORDS = (
    Token("gcp-signature", "X-Goog-Signature=", r"(?P<secret>[a-f0-9]{128,})"),
    Token("azure-sas", "&sig=", r"(?P<secret>(?:[A-Za-z0-9+/]|%[0-9A-Fa-f]{2}){40,}(?:%3[dD]|=)?)"),
    Token("aws-signature", "x-amz-signature=", r"(?P<secret>[a-f0-9]{64})"),
    Token("basic-auth", "basic", r"\s{1,2}[\"'`]?(?P<userinfo>[A-Za-z0-9+/]{8,}={0,2})"),
    Token(
        "basic-auth",
        "_auth",
        r"[\"']?\s{0,2}[=:]\s{0,2}[\"']?(?P<userinfo>[A-Za-z0-9+/]{8,}={0,2})",
    ),
    Token("basic-auth", '"auth"', r"\s{0,2}:\s{0,2}\"(?P<userinfo>[A-Za-z0-9+/]{8,}={0,2})"),
    Token("bearer-token", "bearer", r":?\s{1,2}[\"'`]?(?P<drawn>[\w.~+/=-]{14,})"),
    Token("password", "identified·by", r"\s['\"](?P<secret>[^'\"\s]{3,128})"),
    Token(
        "password",
        "networkcredential(",
        r"\s*(?:\"[^\"]*\",\s{0,24}){1,2}\"(?P<secret>[^\"]{3,128})\"\s{0,2}[,)]",
    ),
    Token("okta-token", "ssws", r"\s{1,2}(?P<drawn>[\w-]{38,})"),
    Token("webhook", "webhook", r"(?:s|b2)?/(?P<path>[\w@./%-]{24,512})"),
    Token("webhook", "hooks.slack.com/ hooks.zapier.com/", r"[a-z]+/(?P<path>[\w/-]{16,})"),
)
SHAPES = (
    TokenShape(
        "airtable-token",
        ".",
        r"(?<=pat\w{14}\.)[a-f0-9]{64}",
        range(17, 18),
        r"pat[A-Za-z0-9]{14}\.[a-f0-9]{64}",
    ),
    TokenShape("azure-key", "AZDO", rf"\w{{4}}{_END}", range(76, 77), r"[A-Za-z0-9]{76}AZDO\w{4}"),
    TokenShape("azure-key", "JQQJ9", r"\w{27}", range(52, 53), r"[A-Za-z0-9]{52}JQQJ9\w{27,}"),
    TokenShape("azure-key", "Q~", r"[\w~.-]{31}", range(4, 5), r"[\w~.-]{3}\dQ~[\w~.-]{31,}"),
    TokenShape(
        "discord-token",
        ".",
        r"(?<=\.[\w-]{6}\.)[\w-]{27}",
        range(31, 36),
        r"[MNO][\w-]{23,27}\.[\w-]{6}\.[\w-]{27,}",
    ),
    TokenShape(
        "firebase-key", ":APA91b", r"[\w-]{60}", range(11, 24), r"[\w-]{11,23}:APA91b[\w-]{60,}"
    ),
    TokenShape(
        "newrelic-key", "NRAL", _END, range(36, 37), r"(?:eu01xx|[a-f0-9]{6})[a-f0-9]{30}NRAL"
    ),
    TokenShape(
        "salesforce-token", "!", r"[\w.]{60}", range(15, 19), r"00D[A-Za-z0-9]{12,15}![\w.]{60,}"
    ),
    TokenShape(
        "maxmind-key",
        "_mmk",
        _END,
        range(36, 37),
        r"[A-Za-z0-9]{6}_[A-Za-z0-9]{29}_mmk",
    ),
    TokenShape("telegram-token", ":AA", r"[\w-]{30}", range(8, 11), r"\d{8,10}:AA[\w-]{30,}"),
    TokenShape(
        "terraform-token",
        ".atlasv1.",
        r"[\w=-]{40}",
        range(14, 15),
        r"\w{14}\.atlasv1\.[\w=-]{40,}",
    ),
)
