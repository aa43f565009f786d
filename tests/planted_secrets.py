"""The planted set: secrets of every kind in the places where sessions hold them, and plain lines.

Every secret is drawn from the format of its kind when it is needed, from a seed: no token stands in
this file. The formats are written down here once more on purpose, so that the table that redacts is
not measured by itself.
"""

import base64
import random
import re
import string
import uuid
from collections.abc import Iterator

HEX = "0123456789abcdef"
SMALL = string.ascii_lowercase + string.digits
LARGE = string.ascii_uppercase + string.digits
WORD = string.ascii_letters + string.digits
ALPHABETS = {
    "2": string.ascii_uppercase + "234567",
    "b": "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L",
    "q": "qpzry9x8gf2tvdw0s3jn54khce6mua7l",
    "p": "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz",
    "h": HEX,
    "s": SMALL,
    "L": LARGE,
    "w": WORD,
    "d": string.digits,
    "+": WORD + "+/",
}

# kind -> formats. <w36> is 36 letters and digits, 2: base32, b, q: bech32, p: base58, h: hexadecimal, s: small, L: capitals, d: digits,
# +: base64, u: a UUID, B: name:password in base64, J: the header of a JWT.
FORMATS = {
    "1password-token": ("ops_eyJ<w300>", "A3-<L6>-<L6>-<L5>-<L5>-<L5>-<L5>"),
    "adafruit-key": ("aio_<w28>",),
    "adobe-key": ("p8e-<s32>",),
    "age-key": ("AGE-SECRET-KEY-1<b58>",),
    "airtable-token": ("pat<w14>.<h64>",),
    "alibaba-key": ("LTAI<w20>", "LTAI5t<w18>"),
    "anthropic-key": ("sk-ant-api03-<w93>AA", "sk-ant-oat01-<w86>"),
    "apify-token": ("apify_api_<w36>",),
    "artifactory-key": ("AKCp<w69>", "cmVmdGtuOj<w54>"),
    "atlassian-token": ("ATATT3xFfGF0<w180>", "ATBB<w32>", "ATTA<h64>"),
    "aws-key": ("AKIA<216>", "ASIA<216>", "da2-<s26>", "amzn.mws.<u>"),
    "azure-key": ("<w76>AZDO<w4>", "<w3>8Q~<w34>", "<w52>JQQJ99<w26>"),
    "bitcoin-key": ("xprv9s21ZrQH143K<p95>", "zprv<p107>"),
    "braintree-token": ("access_token$production$<s16>$<h32>",),
    "brevo-key": ("xkeysib-<h64>-<w16>",),
    "buildkite-token": ("bkua_<h40>",),
    "cerebras-key": ("csk-<s48>",),
    "circleci-token": ("CCIPAT_<w22>_<h40>",),
    "clojars-token": ("CLOJARS_<s60>",),
    "cloudflare-key": ("v1.0-<h24>-<h146>",),
    "contentful-token": ("CFPAT-<w43>",),
    "crates-token": ("cio<w32>",),
    "databricks-token": ("dapi<h32>", "dapi<h32>-2"),
    "defined-key": ("dnkey-<w26>-<w52>",),
    "deno-token": ("ddp_<w36>",),
    "digitalocean-token": ("dop_v1_<h64>", "doo_v1_<h64>", "dor_v1_<h64>"),
    "discord-token": ("M<w23>.<w6>.<w27>", "N<w25>.<w6>.<w38>"),
    "docker-token": ("dckr_pat_<w27>", "dckr_oat_<w32>"),
    "doppler-token": ("dp.pt.<w43>", "dp.st.dev.<w43>", "dp.ct.<w40>"),
    "dropbox-token": ("sl.<w130>", "sl.u.<w140>"),
    "duffel-token": ("duffel_live_<w43>",),
    "dynatrace-token": ("dt0c01.<L24>.<L64>",),
    "easypost-key": ("EZAK<w54>", "EZTK<w54>"),
    "elevenlabs-key": ("sk_<h48>",),
    "facebook-token": ("EAA<w120>",),
    "figma-token": ("figd_<w40>",),
    "firebase-key": ("<w22>:APA91b<w134>",),
    "firecrawl-key": ("fc-<h32>",),
    "fleetbase-key": ("flb_live_<w20>",),
    "flexport-key": ("shltm_<w40>",),
    "flutterwave-key": ("FLWSECK-<h32>-X",),
    "fly-token": ("fo1_<w43>", "fm2_<+200>"),
    "frameio-token": ("fio-u-<w64>",),
    "github-token": ("ghp_<w36>", "gho_<w36>", "ghs_<w36>", "github_pat_<w22>_<w59>"),
    "gitlab-token": ("glpat-<w20>", "glrt-<w20>", "GR1348941<w20>", "gldt-<w20>"),
    "google-key": ("AIza<w35>",),
    "google-oauth": ("ya29.<w120>", "GOCSPX-<w28>"),
    "grafana-token": ("glsa_<w32>_<h8>", "glc_<w60>", "eyJrIjoi<w80>="),
    "groq-key": ("gsk_<w52>",),
    "harness-token": ("pat.<w22>.<w24>.<w20>",),
    "heroku-key": ("HRKU-AA<w58>",),
    "honeycomb-key": ("hcaik_<s58>",),
    "hubspot-token": ("pat-na1-<u>", "pat-eu1-<u>"),
    "hugging-face-token": ("hf_<w34>",),
    "infisical-token": ("st.<h24>.<h32>.<h32>",),
    "infracost-key": ("ico-<w32>",),
    "instagram-token": ("IGQV<w120>",),
    "intercom-token": ("dG9rOg<w54>=",),
    "intra42-secret": ("s-s4t2ud-<h64>",),
    "jina-key": ("jina_<h32><w28>",),
    "jwt": ("<J>.eyJ<w80>.<w43>", "<J>.eyJ<w300>.<w86>"),
    "langfuse-key": ("sk-lf-<u>",),
    "langsmith-key": ("lsv2_pt_<h32>_<h10>",),
    "launchdarkly-key": ("sdk-<u>", "api-<u>"),
    "linear-key": ("lin_api_<w40>",),
    "linkedin-secret": ("WPL_AP1.<w16>.<w8>==",),
    "mailchimp-key": ("<h32>-us13", "<h32>-us6"),
    "mailersend-key": ("mlsn.<h64>",),
    "mailgun-key": ("key-<h32>",),
    "mandrill-key": ("md-A1<w20>",),
    "mapbox-token": ("sk.eyJ<w60>.<w22>", "pk.eyJ<w60>.<w22>"),
    "maxmind-key": ("<w6>_<w29>_mmk",),
    "mongodb-key": ("mdb_sa_sk_<w40>",),
    "neon-key": ("napi_<s64>", "npg_<w14>"),
    "netlify-token": ("nfp_<w36>",),
    "newrelic-key": ("NRAK-<L27>", "NRII-<w32>", "<h36>NRAL"),
    "nostr-key": ("nsec1<q58>",),
    "notion-token": ("ntn_<w46>", "secret_<w43>"),
    "npm-token": ("npm_<w36>",),
    "nvidia-key": ("nvapi-<w64>",),
    "octopus-key": ("API-<L26>",),
    "odt-key": ("odt_<w32>",),
    "onesignal-key": ("os_v2_app_<s104>",),
    "openai-key": ("sk-<w20>T3BlbkFJ<w20>", "sk-proj-<w120>", "sk-svcacct-<w60>"),
    "openrouter-key": ("sk-or-v1-<h64>",),
    "openshift-token": ("sha256~<w43>",),
    "packagist-token": ("packagist_out_<h68>",),
    "password-hash": ("$2b$12$<w53>", "$6$<w8>$<w86>", "$1$<w8>$<w22>"),
    "perplexity-key": ("pplx-<w48>",),
    "pinecone-key": ("pcsk_<w6>_<w62>",),
    "pixie-key": ("px-api-<u>",),
    "plaid-token": ("access-production-<u>",),
    "planetscale-token": ("pscale_tkn_<w43>", "pscale_pw_<w43>"),
    "posthog-key": ("phx_<w43>",),
    "postman-key": ("PMAK-<h24>-<h34>",),
    "prefect-key": ("pnu_<w36>",),
    "private-key": (
        "-----BEGIN RSA PRIVATE KEY-----\n<+64>\n<+64>\n<+30>\n-----END RSA PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----\\n<+64>\\n<+60>\\n-----END PRIVATE KEY-----",
        "-----BEGIN PGP PRIVATE KEY BLOCK-----\n\n<+64>\n<+64>\n-----END PGP PRIVATE KEY BLOCK-----",
        "-----BEGIN OPENSSH PRIVATE KEY----- <+70> <+70> -----END OPENSSH PRIVATE KEY-----",
        "LS0tLS1CRUdJTiBQUklWQVRFIEtFWS0tLS0tCk1J<w200>",
    ),
    "pubnub-key": ("sub-c-<u>", "sec-c-<w48>"),
    "pulumi-token": ("pul-<h40>",),
    "pypi-token": ("pypi-AgEIcHlwaS5vcmc<w100>",),
    "razorpay-key": ("rzp_live_<w14>",),
    "readme-key": ("rdme_<s70>",),
    "render-key": ("rnd_<w28>",),
    "replicate-token": ("r8_<w37>",),
    "resend-key": ("re_A1<w6>_<w24>",),
    "rubygems-key": ("rubygems_<h48>",),
    "runpod-key": ("rpa_<L40>",),
    "salesforce-token": ("00D<w12>!<w96>",),
    "scalingo-token": ("tk-us-<w48>",),
    "sendgrid-key": ("SG.<w22>.<w43>",),
    "sentry-token": ("sntrys_eyJ<w80>_<w43>", "sntryu_<h64>"),
    "settlemint-token": ("sm_aat_<w16>",),
    "shippo-token": ("shippo_live_<h40>",),
    "shopify-token": ("shpat_<h32>", "shpss_<h32>"),
    "slack-token": (
        "xoxb-<d12>-<d12>-<w24>",
        "xoxp-<d12>-<d12>-<d12>-<h32>",
        "xapp-1-A<L10>-<d13>-<h64>",
    ),
    "snyk-token": ("snyk_uat.<h8>.<w40>",),
    "sonar-token": ("sqp_<h40>", "squ_<h40>"),
    "sourcegraph-token": ("sgp_<h16>_<h40>", "sgp_<h40>"),
    "square-token": ("sq0atp-<w22>", "sq0csp-<w43>"),
    "stackhawk-key": ("hawk.<w20>.<w20>",),
    "stripe-key": ("sk_live_<w24>", "rk_test_<w24>", "whsec_<w32>"),
    "supabase-token": ("sbp_<h40>", "sb_secret_<w31>"),
    "tailscale-key": ("tskey-auth-<w12>-<w32>",),
    "tavily-key": ("tvly-<w32>",),
    "teamwork-token": ("tkn.v1_<w76>=",),
    "telegram-token": ("<d9>:AA<w33>", "<d10>:AA<w33>"),
    "tencent-key": ("AKID<w32>",),
    "terraform-token": ("<w14>.atlasv1.<w67>",),
    "together-key": ("tgp_v1_<w43>",),
    "twilio-key": ("SK<h32>",),
    "twitch-key": ("live_<d9>_<w30>",),
    "twitter-token": ("AAAAAAAAAAAAAAAAAAAA<w20>%2F<w50>",),
    "typeform-token": ("tfp_<w44>_<w14>",),
    "vault-token": ("hvs.<w95>", "hvb.<w140>"),
    "vercel-token": ("vcp_<w56>", "vercel_blob_rw_<w16>_<w30>"),
    "voiceflow-key": ("VF.DM.<h24>.<w16>",),
    "wandb-key": ("wandb_v1_<w70>",),
    "xai-key": ("xai-<w80>",),
    "yandex-key": ("AQVN<w36>", "t1.<w60>.<w86>"),
}
# Kinds that only their surroundings give away: the secret, and texts that hold it.
PASSWORDS = ("<w12>", "Tr0<s5>!x", "hunter<d4>", "<w4>-<w4>-9Z")
SURROUNDED = {
    "authorization": (("<h40>",), ("Authorization: token {}", '"Authorization": "ApiKey {}"')),
    "aws-signature": (("<h64>",), ("https://b.s3.amazonaws.com/k?X-Amz-Expires=60&X-Amz-Signature={}",)),
    "azure-sas": (("<w43>%3D",), ("https://x.blob.core.windows.net/c?sv=2022-11-02&sp=r&sig={}",)),
    "basic-auth": (
        ("<B>",),
        ("Authorization: Basic {}", '{{"auths":{{"r.io":{{"auth": "{}"}}}}}}', "//npm.io/:_auth={}"),
    ),
    "bearer-token": (
        ("<w40>", "<h64>"),
        ("Authorization: Bearer {}", "curl -H 'authorization: bearer {}' https://api.host/v1"),
    ),
    "cookie": (("<w32>",), ("Cookie: theme=dark; sid={}; lang=de", "Set-Cookie: session={}; Path=/", "curl --cookie 'sid={}' host")),
    "gcp-signature": (("<h512>",), ("https://storage.host/b/k?X-Goog-Expires=60&X-Goog-Signature={}",)),
    "okta-token": (("00<w40>",), ("Authorization: SSWS {}", "curl -H 'authorization: SSWS {}'")),
    "password": (
        PASSWORDS,
        (
            "password: {}", "DB_PASSWORD={}", 'export PGPASSWORD="{}"', '{{"password": "{}", "a": 1}}',
            "mysql -u root -p{} shop", "sshpass -p {} ssh box", "docker login -u bob -p {} r.io",
            "machine api.host login bob password {}", "the password is {} for now", "spring.datasource.password={}",
            "Server=db;Uid=app;Pwd={};Database=shop", "<password>{}</password>", "redis-cli -a {} ping",
            "- name: DB_PASSWORD\n  value: {}", "CREATE USER x IDENTIFIED BY '{}'", "jdbc:x://h/db?user=a&password={}",
            '<add key="MailPassword" value="{}"/>', "$config['db_password'] = '{}';", "--password {} --force",
            'new NetworkCredential("bob", "{}")', "ansible_ssh_pass={}", 'const PASSWORD = "{}";',
        ),
    ),
    "secret": (
        ("<w32>", "<h40>", "<+40>", "<s24>"),
        (
            "API_KEY={}", "client_secret: {}", '{{"access_token": "{}"}}', "--api-key {} --verbose",
            "AWS_SECRET_ACCESS_KEY={}", 'let secretKey = "{}"', "twilio_auth_token='{}'", "x-api-key: {}",
            "https://api.host/v1?api_key={}&q=1", "DATADOG_API_KEY: {}", 'System.setProperty("API_TOKEN", "{}")',
            "ALGOLIA_ADMIN_KEY={}", 'cloudflare_api_token = "{}"', "PAGERDUTY_TOKEN={}", 'var apiToken string = "{}"',
            "SharedAccessKey={}", "JWT_SECRET={}", '{{"name": "API_TOKEN", "value": "{}"}}', "secret key: {}",
        ),
    ),
    "unseal": (("<+44>",), ("Unseal Key 1: {}",)),
    "url-password": (
        PASSWORDS,
        ("postgres://app:{}@db.host:5432/shop", "redis://:{}@cache:6379/0", "https://bob:{}@git.host/r.git",
         "mongodb+srv://u:{}@c0.abc.mongodb.net/x", "amqp://a:{}@mq/"),
    ),
    "webhook": (
        ("T<L8>/B<L8>/<w24>",),
        ("https://hooks.slack.com/services/{}", "curl -X POST https://hooks.slack.com/services/{} -d '{{}}'"),
    ),
    "discord-webhook": (("<d18>/<w68>",), ("https://discord.com/api/webhooks/{}",)),
}  # fmt: skip
# Where a session holds a token: prompts, tool input, tool output, paths.
FRAMES = (
    "Please use {} for the deployment and tell nobody",
    "hier ist der Schlüssel: {} , danke",
    "{}",
    "export SERVICE_CREDENTIAL='{}'",
    '{{"command": "curl -s https://api.host/v1 -H \\"X-Auth: {}\\""}}',
    'config = {{"credential": "{}"}}',
    "12:00:01 INFO using {} (from environment)",
    "value: {}  # staging",
    "<entry>{}</entry>",
    "+      token = '{}'",
    "/home/kim/shop/{}/notes.md",
    "https://api.host/v1/items?access={}&page=2",
)


_PART = re.compile(r"<([2bqphsLwd+uBJ])(\d*)>")


def draw(form: str, chance: random.Random) -> str:
    """Return a secret of a format."""
    return _PART.sub(lambda part: _drawn(part[1], part[2], chance), form)


def _drawn(what: str, size: str, chance: random.Random) -> str:
    if what == "u":
        return str(uuid.UUID(int=chance.getrandbits(128), version=4))
    if what == "J":
        header = f'{{"alg":"HS256","kid":"{draw("<w8>", chance)}"}}'
        return base64.urlsafe_b64encode(header.encode()).decode().rstrip("=")
    if what == "B":
        return base64.b64encode(f"kim:{draw('<w11>', chance)}".encode()).decode()
    return "".join(chance.choices(ALPHABETS[what], k=int(size)))


def plant(chance: random.Random) -> Iterator[tuple[str, str, str]]:
    """Give (kind, secret, text that holds it) for every kind in every surrounding."""
    for kind, forms in FORMATS.items():
        for form in forms:
            for frame in FRAMES:
                secret = draw(form, chance)
                held = secret.replace("\n", "\\n") if '{{"' in frame else secret
                yield kind, held, frame.format(held)
    for kind, (forms, frames) in SURROUNDED.items():
        for form in forms:
            for frame in frames:
                secret = draw(form, chance)
                yield kind, secret, frame.format(secret)


# Lines as sessions hold them by the thousand, with values that look like secrets and are none.
PLAIN = (
    "commit <h40>", "index <h7>..<h7> 100644", "Merge pull request #<d4> from kim/fix-<d2>", "HEAD is now at <h7> Fix it",
    "session <u> resumed", '{"uuid":"<u>","parentUuid":"<u>","type":"assistant"}', "toolu_01<w22> finished in <d2> ms",
    '"integrity": "sha512-<+86>==",', "      integrity sha512-<+86>==", 'checksum = "<h64>"', "    --hash=sha256:<h64> \\",
    "sha256:<h64>  image.tar", 'ETag: W/"<h32>"', "digest: sha256:<h64>", "md5 <h32>  file.bin", "go.sum h1:<+43>=",
    "requestId: req_01<w22>", "msg_01<w22>", '"signature":"<+200>"', "data:image/png;base64,<+120>", "trace_id=<h32> span_id=<h16>",
    "src/auth/token.py:<d2>: in refresh_token", '  File "/home/kim/app/session/password_reset.py", line <d2>, in send',
    "-rw-r--r-- 1 kim kim <d5> Mar  4 12:0<d1> secrets.example.toml", "drwxr-xr-x 2 kim kim 4096 .ssh", "id_rsa.pub  known_hosts  config",
    "PASSED tests/unit/test_token.py::test_a_token_expires[<d2>]", "--- PASS: TestPasswordReset (0.0<d1>s)", "FAILED test_key.py - KeyError: 'key'",
    "    at Object.<anonymous> (/app/node_modules/jest-circus/build/run.js:<d2>:<d2>)", "<d4> passed, <d1> failed in <d2>.1s",
    "diff --git a/src/keys.ts b/src/keys.ts", "-  const token = await getToken(user);", "+  token: string;", "+    password: str = Field(min_length=8)",
    "def login(self, user: str, password: str) -> Token:", "token = os.environ['API_TOKEN']", "const apiKey = process.env.API_KEY;",
    "api_key: ${API_KEY}", "password: ${{ secrets.DB_PASSWORD }}", "PASSWORD=<your-password>", "export TOKEN=xxxxxxxxxxxx", "API_KEY=YOUR_API_KEY_HERE",
    "client = Client(token=token, password=password)", "self.secret = secret", "if not token: raise MissingToken", "secret_key = config.secret_key",
    "The token: see below.", "Password: required", "password must have at least <d1> characters", "Enter your password:", "Das Passwort: bitte ändern",
    "input_tokens: <d4>, output_tokens: <d3>, cache_read_input_tokens: <d5>", '"max_tokens": <d4>, "stop_token": null', "tokens=<d5> cost=0.0<d1>",
    "key: value", "primary_key=True, unique=True", 'cache_key = f"user:{user.id}"', "for key, value in items:", "KeyError: 'token'", "press any key: ",
    "foreign_key: users.id", "public_key: ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI<+42> kim@box", "hotkey: ctrl+shift+p", "sort_key='created_at'",
    "http://localhost:8080/path", "git@github.com:kim/shop.git", "https://github.com/kim/shop/commit/<h40>", "postgres://user:password@localhost/db",
    "https://user:${TOKEN}@host/x", "mailto:kim@host.invalid", "npm install --save-dev @types/node@20.1.<d1>", "pip install requests==2.31.<d1>",
    "mkdir -p build/out && cp -a src/. build/", "ssh -p 2222 box", "docker run -p 8080:80 -u 1000:1000 image", "tar -xzf archive.tar.gz -C /opt", "psql -U app -w shop",
    "class='btn btn-primary text-sm sk-toggleable__content'", ".sk-container-id-<d1> { color: #<h6>; }", "font-family: -apple-system", "background: url(/img/hero-1920x1080.jpg)",
    "version 1.2.<d2>-rc.<d1>+build.<d4>", "v20.1<d1>.0", "uuid: <u>", "id=<d12>", "2026-03-0<d1>T12:00:00.<d3>Z", "Bearer token is missing", "Basic usage:", "Basic authentication is off",
    "Authorization header is required", "set the Authorization: Bearer <token> header", "Cookie consent banner", "cookie: theme=dark; lang=de",
    "Ich habe das Passwort zurückgesetzt und den Test erneut laufen lassen.", "Le jeton expire après une heure, il faut le renouveler.",
    "El token caduca; la contraseña se guarda cifrada.", "トークンの有効期限を確認してください。", "密码必须至少八个字符。", "Проверь, что токен обновляется.",
    "Now let me look at how the session key is derived.", "The secret is to keep functions small.", "We should pass: the tests, the linter and the types.",
    "I'll add a `password` field to the form and validate it.", "All credentials are read from the environment.", "Next: rotate the signing key every day.",
    "const {data: token} = useQuery(['token'])", "type Token = { kind: string; value: string }", "impl From<Token> for String", "export const selectToken = (s: State) => s.auth.token;",
    '<input type="password" name="password" placeholder="Password" />', '"password": "Password", "username": "User name"', "label: 'Forgot password?'",
    '["username", "password", "email"]', "token_type: bearer", "expires_in: <d4>", "secretName: app-secrets", "secretKeyRef:", "key: database-url", "kind: Secret",
    "password_hash = bcrypt(password)", "passwordLabel: 'Password:',", "hashed_password: Mapped[str]", "token?: string", "keyof typeof KEYS", "keyboard: us", "monkey=patched",
    "[redacted:github-token]", "TOKEN=[redacted:secret] make deploy", "AKIAIOSFODNN7EXAMPLE", "ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", "sk-...", "Bearer <jwt>", "xoxb-your-token-here",
    '  "resolved": "sonar-scanner-3.1.<d1>.tgz#<h40>",', "webpack://shop/./src/pages/login/index.tsx?<h4>", "chunk-<h8>.js  <d3> kB",
    "Compiling tokio-util v0.7.<d1>", "  12% |████      | <d3>/<d4> [00:<d2><00:<d2>, <d2>.1it/s]", "Already on 'main'", "nothing to commit, working tree clean",
)  # fmt: skip


def plain_lines(chance: random.Random, rounds: int) -> Iterator[str]:
    """Give each of the plain lines that often, each time with other hashes and numbers."""
    for _ in range(rounds):
        for line in PLAIN:
            yield draw(line, chance)


def left(secret: str, masked: str) -> bool:
    """Return True if a masked text still holds a secret, or eight characters of its middle."""
    pieces = (secret[at : at + 8] for at in range(4, len(secret) - 8))
    return secret in masked or "[redacted:" not in masked or any(map(masked.__contains__, pieces))
