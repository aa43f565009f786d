"""Redaction: every kind of secret is masked whole, and nothing else is."""

import random
import time

import pytest

import planted_secrets
from handoffd.redaction import redact as redact_module
from handoffd.redaction.kinds import SHAPES, TOKENS, WORDS
from handoffd.redaction.redact import may_hold_secret, redact, use_patterns

CHANCE = random.Random(11)
PLANTED = list(planted_secrets.plant(CHANCE))
KINDS = sorted({kind for kind, _, _ in PLANTED})


@pytest.fixture
def own_patterns():
    """Reset the user's patterns after a test."""
    yield
    use_patterns({})


def draw(form: str) -> str:
    # The same text in every run, in any order of the tests.
    return planted_secrets.draw(form, random.Random(form))


def test_every_rule_has_a_planted_secret():
    """Every kind of the table has an example, and there are at least sixty kinds."""
    kinds = {row.kind for row in (*TOKENS, *WORDS, *SHAPES)}

    assert set() == kinds - set(KINDS)
    assert 60 <= len(KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_secrets_are_masked_whole(kind):
    """In prompts, tool input, tool output and paths, secrets of each kind are masked whole.

    Of each kind at most one in twenty texts may be missed.
    """
    texts = [(secret, text) for planted_kind, secret, text in PLANTED if planted_kind == kind]
    masked = [(secret, redact(text)[0]) for secret, text in texts]
    missed = [text for secret, text in masked if planted_secrets.left(secret, text)]

    assert len(missed) <= len(texts) // 20, missed[:3]


def test_the_planted_set_is_found(record_property):
    """At least 99 % of the planted secrets are masked, and 98 % are also named by their kind."""
    masked = [(kind, secret, *redact(text)) for kind, secret, text in PLANTED]
    found = [row for row in masked if not planted_secrets.left(row[1], row[2])]
    named = [row for row in found if row[0] in row[3]]

    assert 0.99 <= len(found) / len(masked)
    assert 0.98 <= len(named) / len(masked)
    record_property("figure", f"{len(found)} of {len(masked)} found")


def test_plain_lines_are_left_alone(record_property):
    """At most one in 1,000 ordinary lines of a session is changed."""
    lines = list(planted_secrets.plain_lines(random.Random(5), 20))
    changed = [line for line in lines if redact(line)[1]]

    assert len(changed) <= len(lines) / 1000, changed
    record_property("figure", f"{len(changed)} of {len(lines)} lines masked")


def test_a_mask_says_what_was_there():
    """The rest of the text stays, and the kind replaces the secret."""
    token = draw("ghp_<w36>")

    assert ("a [redacted:github-token], b", ("github-token",)) == redact(f"a {token}, b")


def test_the_kind_that_says_most_wins():
    """A known token in an assignment is named by its own kind, and masked once."""
    token = draw("xoxb-<d12>-<d12>-<w24>")

    assert ('SLACK_TOKEN="[redacted:slack-token]"', ("slack-token",)) == redact(
        f'SLACK_TOKEN="{token}"'
    )


@pytest.mark.parametrize(
    "text",
    [
        "password: {}",
        "password={}",
        "DB_PASSWORD='{}'",
        '{{"db": {{"password": "{}"}}}}',
        '\\"password\\": \\"{}\\"',
        "spring.datasource.password = {}",
        "mysql -h db -u root -p{} shop",
        "machine host login me password {}",
        "postgresql://me:{}@db/shop",
        "Driver=x;Uid=me;Pwd={};Database=y",
        "my password is {}",
        "curl -u me:{} https://host",
        "env:\n  - name: DB_PASSWORD\n    value: {}",
        "--password {}",
        "$password .= '{}';",
        'export PGPASSWORD="{}"; psql',
    ],
)
def test_passwords_are_masked_by_their_name(text):
    """A value that follows a telling name and a sign is masked whole."""
    for password in ("hunter2xyz", "Tr0ub4dor&3", "P@ss$word1", draw("<w20>")):
        masked, found = redact(text.format(password))

        assert password not in masked
        assert 1 == len(found)
        assert masked.startswith(text[:4].replace("{{", "{"))


@pytest.mark.parametrize(
    "value", ["ßüñçé-42", "密码密码密码", "aGk6" + "é" * 5, "\ud800" * 8, "=" * 9]
)
@pytest.mark.parametrize("name", ["Authorization: Basic ", "curl -u ", "://", "eyJ", "token: "])
def test_no_value_is_an_error(name, value):
    """A value in another script, or with half a character, is examined like any other."""
    assert redact(f"{name}{value} end")[0].endswith(" end")


@pytest.mark.parametrize("length", [40, 600, 5000])
def test_a_long_value_is_masked_to_its_end(length):
    """A value of any length is masked to its end."""
    value = draw(f"<w{length}>")

    assert "API_TOKEN=[redacted:secret] next" == redact(f"API_TOKEN={value} next")[0]
    assert 'token: "[redacted:secret]"' == redact(f'token: "{value}"')[0]


def test_the_secret_beside_an_access_key_is_masked():
    """The nameless secret that follows an AWS access key is masked."""
    masked, found = redact(draw("AKIA<216>, 7aB<+37>"))

    assert "[redacted:aws-key], [redacted:aws-key]" == masked
    assert ("aws-key", "aws-key") == found


@pytest.mark.parametrize(
    "text",
    [
        "password=<your password>",
        "password: ${DB_PASSWORD}",
        "PASSWORD=$PASSWORD",
        "api_key: xxxxxxxxxxxxxxxx",
        "API_KEY=YOUR_API_KEY_HERE",
        "token = 'REPLACE_ME-EXAMPLE-TOKEN'",
        "AWS_ACCESS_KEY_ID=AKIAIOSFODNN7EXAMPLE",
        "token = os.environ['TOKEN']",
        "const key = process.env.API_KEY",
        "token = get_token(user)",
        "token: str",
        "password: Optional[str] = None",
        "password: required",
        "the token: see below",
        "client = Client(token=token, password=password)",
        "https://user:password@host/x",
        "https://user:${TOKEN}@host/x",
        "https://host:8080/path@2",
        '["username", "password", "email"]',
        'passwordLabel: "Password:", other: "x"',
        '"password": "Enter your password"',
        "max_tokens=4096",
        "cache_key='user-2024-01-02-x9'",
        "Bearer <token>",
        "Basic authentication",
        "ssh -p 2222 host; mkdir -p a1b2c3",
        "--- PASS: TestTheThing2 (0.00s)",
    ],
)
def test_placeholders_and_code_are_left_alone(text):
    """A placeholder for a secret, code that reads one, and a text about one are left alone."""
    assert (text, ()) == redact(text)


@pytest.mark.parametrize(
    "form",
    [
        "commit <h40>",
        "sha256:<h64>",
        "<h32>",
        "id <u>",
        '"integrity": "sha512-<+86>=="',
        'checksum = "<h64>"',
        "h1:<+43>=",
        "data:image/png;base64,<+400>",
        "toolu_01<w22>",
        "ssh-rsa AAAAB3NzaC1yc2E<+300> me@host",
        "https://host/repo/commit/<h40>",
        "sonar-scanner-3.1.0.tgz#<h40>",
    ],
)
def test_hashes_are_left_alone(form):
    """Hashes, UUIDs, integrity strings, public keys and pictures are no secrets."""
    for _ in range(50):
        text = draw(form)

        assert (text, ()) == redact(text)


def test_redaction_is_stable():
    """A masked text is not masked again, alone or among other text."""
    masked = [redact(text)[0] for _, _, text in PLANTED]

    assert [] == [text for text in masked if redact(text)[0] != text]
    assert " ".join(masked) == redact(" ".join(masked))[0]


def test_the_quick_check_never_says_no_where_something_is_found():
    """may_hold_secret() is false only for a text that redact() leaves unchanged."""
    assert [] == [text for _, _, text in PLANTED if redact(text)[1] and not may_hold_secret(text)]
    assert not may_hold_secret("Now let me look at the test once more.")


def test_other_scripts_do_not_move_the_mask():
    """A secret between multi-byte characters is masked exactly."""
    token = draw("glpat-<w20>")

    assert "密码 🔑 [redacted:gitlab-token] ü" == redact(f"密码 🔑 {token} ü")[0]


def test_own_patterns_are_masked_under_their_name(own_patterns):
    """The user's patterns mask in addition to the table, and replace earlier ones."""
    use_patterns({"ticket": r"TCK-\d+"})

    assert ("see [redacted:ticket]", ("ticket",)) == redact("see TCK-42")
    assert may_hold_secret("see TCK-42")
    use_patterns({"badge": r"B\d{4}"})
    assert ("TCK-42 [redacted:badge]", ("badge",)) == redact("TCK-42 B1234")


def test_own_patterns_do_not_mask_masks(own_patterns):
    """A pattern that matches a mask, or the empty text at a position, changes nothing there."""
    use_patterns({"word": r"redacted|github|\bx*(?=y)y?"})
    once = redact(f"y and {draw('ghp_<w36>')}")[0]

    assert "[redacted:word] and [redacted:github-token]" == once
    assert once == redact(once)[0]


@pytest.mark.parametrize(
    ("name", "pattern", "complaint"),
    [
        ("broken", "(", "'broken'"),
        ("empty", "x*", "'empty': it matches the empty text"),
        ("a]b", "x", "letters, digits"),
    ],
)
def test_bad_patterns_are_refused_by_name(name, pattern, complaint, own_patterns):
    """A broken pattern, one that matches the empty text, and a bad name are refused by name.

    The patterns that were set before stay.
    """
    use_patterns({"ticket": r"TCK-\d+"})

    with pytest.raises(ValueError, match="redaction pattern") as refused:
        use_patterns({name: pattern})
    assert complaint in str(refused.value)
    assert ("ticket",) == redact("TCK-1")[1]


WORST = [
    "1", "-", "a", "0f", "eyJ", "eyJ-", "eyJa.", "sk-", "glpat-", "://a:", "://:", "://a:b@", "@",
    "key_", "key=", "key=key", "password ", "password=", "passwd is ", "token: 'a", "-----BEGIN ",
    "-----BEGIN PRIVATE KEY-----", "AKIA", " -p", "mysql -p", "Cookie: a=b; ", "authorization: ",
    "webhook/", "secret, value:", "'password: ' ", "&sig=%3D", "_auth=", "M.", "$2a$", '\\"',
    "BEGIN PRIVATE KEY ", "-----END PRIVATE KEY-----", "-----END RSA PRIVATE KEY----- aB3dE5fG7hJ9kL1m ",
    "4b4559", "4b 45 59 ", "K E Y - ", "LS1CRUdJTi", "MIIEowIBAAKC ", "Private-MAC: ", "DEK-Info: ",
    "aB3dE5fG7hJ9kL1mN+" * 3 + "aB3dE5fG7h ", "-----BEGIN X" + "aB3dE5fG7hJ9kL1m" * 4 + "\n",
    *(
        f"aB3dE5gH7jK9mN1pQ2r/{mark}"
        for mark in (
            " END%20PRIVATE%20KEY ", " END%20PRIVATE%20KEY", " END+PRIVATE+KEY ", "+END+PRIVATE+KEY+",
            " END X%PRIVATE KEY ", " END PRIVATE KEY ", " Private-MAC ", " Private-MAC: ", " Private-MAC:0",
        )
    ),
    "\x1b", "\x1b[", "\x1b]", "\x1b[1mk", "\0k", "\\", "\\u006b", "<span ", "<span>k", "\u200b", "k\u200b",
    "kty:", '{"kty":', '"kty":"","d":"a1b2c3d4e5f6g7h8i9j0k1l2",', "<RSAKeyValue>", "<RSAKeyValue><D>aB3dE5fG7hJ9kL1m", "prime1:", "priv: ",
    "prime1: ab:cd:ef:01:23:45:67:89:", "45, 45, 45, 45, 45, 66, 69, 71, 73, 78, ", "45,45,45,45,45,66,69,71,73,78,32,80,85,66,76,73,67,",
    "[1,2,", "[" + "1,2," * 32, "30770201010420", "308204a40201000282", "L1", "5K" + "a" * 50 + " ", "nsec1", "xprv",
]  # fmt: skip
# Processor time, which other programs do not use up; a megabyte of prose takes a tenth of it.
SECONDS_MAX = 2.0


@pytest.mark.timeout(300)
@pytest.mark.parametrize("unit", WORST)
def test_no_text_takes_its_square(unit):
    """Candidate positions grow linearly with the text, and 64 KiB of any piece is quick."""
    once, often = (
        list(redact_module._table.spots(unit * n, redact_module.as_bytes(unit * n)))
        for n in (400, 800)
    )

    assert len(often) <= 2 * len(once) + 20
    began = time.process_time()
    redact(unit * (65536 // len(unit)))
    assert time.process_time() - began < SECONDS_MAX


@pytest.mark.parametrize("opening", ["ghp_", "glpat-", "nvapi-", "sb_secret_"])
def test_a_run_of_openings_is_read_once(opening, monkeypatch):
    """A long run of token beginnings is judged a few times, not once per beginning."""
    judged = []
    judge = redact_module._secret_part
    monkeypatch.setattr(
        redact_module, "_secret_part", lambda token: judged.append(1) or judge(token)
    )
    redact(opening * 10_000)

    assert 0 < len(judged) < 500


def test_a_token_at_the_end_of_such_a_run_is_found():
    """A token behind a long run of token beginnings is masked."""
    token = "ghp_" + "a1B2c3D4e5" * 4

    assert token not in redact("ghp_" * 1000 + " " + token)[0]


@pytest.mark.parametrize("text", ["password: lYuXSjsWdMRu", "the password is qWbHtZkRmXs"])
def test_letters_drawn_by_lot_are_a_password(text):
    """A random password without a digit is masked behind its name, though it could be a name."""
    assert redact(text)[1]


@pytest.mark.parametrize(
    "value", ["ChangeMePlease", "getPasswordFromEnv", "REQUIRED", "userAPIKEY", "resetPwInDbNow"]
)
def test_names_are_no_password(value):
    """A name of several words in the same position is left alone."""
    assert (f"password: {value}", ()) == redact(f"password: {value}")


@pytest.mark.parametrize(
    "text",
    [
        "acme SECRET {}",
        "acme api TOKEN {}",
        "acme_key {}",
        "acme-key-{}",
        "acme token - '{}'",
        "acmePRIVATE: {}",
        "acme_access={}",
        "    acme secret key  :  {}\nnext line",
        "export ACME_TOKEN='\\''{}'\\''",
        'variable "acme_token" {{\n  type    = string\n  default = "{}"\n}}',
    ],
)
def test_a_random_value_on_a_line_with_its_name_is_masked(text):
    """On a line with a name and a random value, with or without a sign, the value is masked."""
    for form in ("<h32>", "<w40>", "<u>", "<h40>"):
        value = draw(form)

        assert value not in redact(text.format(value))[0]


@pytest.mark.parametrize(
    "form",
    [
        "The commit with the key change is <h40>",
        "public key <h64>",
        "cache key <h32>",
        "sha256 key digest: <h64>",
        "session id <u>",
        "token count 1234567890123456789",
        "primary key <u>",
    ],
)
def test_other_names_on_a_line_are_left_alone(form):
    """The name of a hash, a number or a public value does not make its value a secret."""
    text = draw(form)

    assert (text, ()) == redact(text)


@pytest.mark.parametrize(
    "text",
    [
        "Das Passwort ist {}",
        "Kennwort: {}",
        "contraseña: {}",
        "la contraseña es {}",
        "contrasena={}",
        "Le mot de passe est {}",
        "mot de passe : {}",
        "senha: {}",
        "wachtwoord={}",
        "密码：{}",
        "密码是 {}，谢谢",
        "パスワードは{}",
        "пароль: {}",
        "hasło = '{}'",
        "비밀번호: {}",
        "localhost:5432:shop:app:{}",
        "openssl enc -aes-256-cbc -pass pass:{} -in a",
        "openssl rsa -passin 'pass:{}'",
    ],
)
def test_passwords_in_other_languages_and_programs_are_masked(text):
    """A password is recognised by its name in other languages, and by its place in a command."""
    for password in ("hunter2xyz", "Tr0ub4dor&3"):
        masked = redact(text.format(password))[0]

        assert password not in masked
        assert "[redacted:password]" in masked


@pytest.mark.parametrize(
    "text",
    [
        "密码必须至少八个字符。",
        "пароль: обязательно",
        "Le mot de passe est requis",
        "Kennwort: erforderlich",
    ],
)
def test_words_about_passwords_in_other_languages_stay(text):
    """A sentence about passwords in another language stays unchanged."""
    assert (text, ()) == redact(text)


HIDDEN = [
    "\u00ad", "\u200b", "\u2060", "\ufeff", "\u2063", "\ufe0f", "\u202a", "\u3164", "\U000e0041", "\0",
    "\x1b[1m", "\x1b[m\x1b[K", "\x1b[38;5;196m\u200b", "</span><span class='x'>", "<mark>",
]  # fmt: skip


@pytest.mark.parametrize("hidden", HIDDEN)
def test_invisible_characters_hide_no_secret(hidden):
    """Colours, markup and zero-width characters do not protect a token or a name from masking."""
    token = draw("ghp_<w36>")
    end = "</mark>" if hidden == "<mark>" else ""

    text = f"a {token[:9]}{hidden}{token[9:]}{end} b"
    assert f"a [redacted:github-token]{end} b" == redact(text)[0]
    assert "hunter2xyz" not in redact(f"pass{hidden}word: hunter2xyz{end}")[0]
    assert may_hold_secret(f"{token[:3]}{hidden}{token[3:]}{end}")


@pytest.mark.parametrize("written", ["\\u0067", "\\\\u0067", "\\x67"])
def test_escapes_hide_no_secret(written):
    """A token with one character written as an escape is masked with the escape."""
    token = draw("ghp_<w36>")

    assert "a [redacted:github-token] b" == redact(f"a {written}{token[1:]} b")[0]
    assert may_hold_secret(written + token[1:])


def test_colours_and_emoji_of_other_text_stay():
    """Characters that hide nothing stay, and a token behind a coloured word is found."""
    token = draw("glpat-<w20>")
    text = f"⚠\ufe0f \x1b[1mname\x1b[m{token}\x1b[m 👩\u200d💻 <span>\\u003cb</span>"

    assert text.replace(token, "[redacted:gitlab-token]") == redact(text)[0]


SEED = "lamp orbit velvet canyon drift maple hollow sunset gravity pepper anchor tiger"


@pytest.mark.parametrize("text", ["seed phrase: {}", 'MNEMONIC="{}"', "recovery phrase is {}"])
def test_seed_phrases_are_masked(text):
    """The words behind the name of a seed phrase are masked, and a sentence there stays."""
    assert text.format("[redacted:seed-phrase]") == redact(text.format(SEED))[0]
    sentence = text.format("the twelve words that you wrote down when your wallet was made for you")
    assert (sentence, ()) == redact(sentence)


@pytest.mark.parametrize(
    "url", ["https://x.net/c?sig={}", "https:\\/\\/x.net\\/c?sv=1\\u0026sig={}&se=2"]
)
def test_signatures_of_azure_are_masked_wherever_they_stand(url):
    """A signature is found as the first parameter, and behind an escaped ampersand."""
    for form in ("<w43>%3D", "<w20>%2B<w10>%2f<w11>%3d"):
        signature = draw(form)

        assert url.format("[redacted:azure-sas]") == redact(url.format(signature))[0]


@pytest.mark.parametrize(
    "form",
    [
        "ghp_<w20>", "AKIA1890<216>", "sntryu_<h63>", "sk-ant-api03-<w40>", "glpat-<w9>", "npm_<w35>",
        "GR1348941<d20>", "eyJ<w30>.eyJ<w40>.<w43>", "xoxb-1-<w20>", "SG.<w5>.<w9>",
    ],
)  # fmt: skip
def test_tokens_that_no_provider_issues_are_left_alone(form):
    """A prefix with a rest of the wrong length, alphabet or variety is no token."""
    text = f"see {draw(form)} there"

    assert (text, ()) == redact(text)
