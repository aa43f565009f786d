"""The fold, its receipts, and the gate that every text passes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handoffd.session.fold import fold, is_repeated
from handoffd.session.redact import _RULES, redact
from handoffd.session.state import FILES_MAX, SessionState, dump, load
from handoffd.session.text import (
    clean,
    keep,
    last_intention,
    opening,
    redact_values,
    request,
    shorten,
)
from handoffd.transcript.events import (
    Asked,
    Decided,
    Edited,
    Listed,
    Moved,
    Origin,
    Planned,
    Prompt,
    Resulted,
    Said,
    Seen,
    Stopped,
    Todo,
)
from handoffd.transcript.records import Record


def origin(offset=0, *, sidechain=False) -> Origin:
    return Origin(offset, f"uuid-{offset}", f"2026-01-01T00:00:{offset:02d}.000Z", sidechain)


def folded(*given_events) -> SessionState:
    state = SessionState("s")
    for event in given_events:
        fold(state, event, "s")
    return state


def test_goal_is_the_first_substantial_prompt():
    """Saying "continue" states no goal; the first real request does, with its receipt."""
    state = folded(
        Prompt(origin(1), "continue"),
        Prompt(origin(2), "Add a login page to it"),
        Prompt(origin(3), "Now make it blue as well"),
    )

    assert "Add a login page to it" == state.goal.text
    assert ("s", "uuid-2", 2, "quoted") == (
        state.goal.receipt.transcript,
        state.goal.receipt.uuid,
        state.goal.receipt.offset,
        state.goal.receipt.evidence,
    )
    assert "Now make it blue as well" == state.now.text


@pytest.mark.parametrize(
    "text",
    ["로그인 페이지를 추가해 줘", "请添加一个登录页面到网站", "ログインページを追加してください"],
)
def test_other_scripts_state_goals(text):
    """A request in a script without spaces is a goal, too."""
    assert text == folded(Prompt(origin(1), text)).goal.text


def test_sidechains_only_add_files():
    """What a sub-agent says or is told changes nothing but the list of files."""
    side = origin(5, sidechain=True)
    state = folded(
        Prompt(origin(1), "Do the main work here"),
        Said(side, "I am a helper."),
        Edited(side, "/p/x.py"),
        Stopped(side, "boom"),
    )

    assert "Do the main work here" == state.now.text
    assert ["/p/x.py"] == [value.text for value in state.files]
    assert "in_progress" == state.status.text


def test_first_cwd_stays_and_relocation_moves():
    """A `cd` in a tool call moves nothing; a relocation record does."""

    def seen(cwd):
        return Seen(origin(1), "user", True, cwd, "main", "cli", True)

    assert "/a" == folded(seen("/a"), seen("/a/b")).cwd
    assert "/tree" == folded(seen("/a"), Moved(origin(2), "/tree")).cwd


def test_status_follows_waiting_and_errors():
    """Waiting for a person and an API error are blocked; the next prompt goes on."""
    waiting = folded(Prompt(origin(1), "Do the main work here"), Asked(origin(2)))
    failed = folded(Stopped(origin(1), "Limit reached"))
    again = folded(Asked(origin(1)), Prompt(origin(2), "yes"))

    answered = folded(Asked(origin(1)), Resulted(origin(2)))
    spoke = folded(Stopped(origin(1), "Limit reached"), Said(origin(2), "Going on."))

    assert ["blocked", "blocked"] == [s.status.text for s in (waiting, failed)]
    assert {"in_progress"} == {s.status.text for s in (again, answered, spoke)}
    assert "Stopped by an error: Limit reached" == failed.now.text


def test_questions_become_decisions():
    """A question is open until a person answers it, or types on; the answer is a decision."""
    asked = folded(Asked(origin(1), ("Which colour?",)))
    decided = folded(
        Asked(origin(1), ("Which colour?",)), Decided(origin(2), (("Which colour?", "blue"),))
    )
    typed = folded(Asked(origin(1), ("Which colour?",)), Prompt(origin(2), "never mind"))

    assert ["Which colour?"] == [value.text for value in asked.questions]
    assert ([], ["Which colour? blue"]) == (
        decided.questions,
        [value.text for value in decided.decisions],
    )
    assert [] == typed.questions
    assert decided == load(dump(decided))


def test_files_are_bounded_and_newest_first():
    """The list keeps the most recent files, each once."""
    state = folded(
        *(Edited(origin(n % 60), f"/p/{n}") for n in range(100)), Edited(origin(1), "/p/98")
    )

    assert FILES_MAX == len(state.files)
    assert ["/p/98", "/p/99", "/p/97"] == [value.text for value in state.files[:3]]


def test_fold_does_not_grow():
    """Ten thousand events leave a state no larger than some kilobytes."""
    state = SessionState("s")
    for number in range(10000):
        record = Record(number, {"uuid": f"{number:08x}-aaaa-bbbb-cccc-dddddddddddd"})
        is_repeated(state, record)
        fold(state, Seen(origin(1), f"kind{number}", False, "/p", "main", "cli", True), "s")
        fold(state, Said(origin(1), f"Statement {number} " + "x" * 500), "s")
        fold(state, Edited(origin(1), f"/p/{number}" + "y" * 1000), "s")

    assert len(dump(state)) < 40_000


def test_dump_and_load():
    """A stored fold is the same state again."""
    state = folded(
        Prompt(origin(1), "Add a login page 🚀"),
        Edited(origin(2), "/p/a"),
        Said(origin(3), "Ja, größer."),
    )

    assert state == load(dump(state))


@given(st.text(max_size=300))
def test_any_text_is_made_fit(text):
    """Whatever a transcript says, what is kept is one bounded line without control characters."""
    kept, _ = keep(text, 50)

    assert len(kept) <= 50
    assert not any(ord(c) < 32 or 0x7F <= ord(c) < 0xA0 or 0xD800 <= ord(c) < 0xE000 for c in kept)
    kept.encode("utf-8")


def test_escapes_and_hidden_characters_are_dropped():
    """Terminal escapes, direction overrides and invisible tags do not pass."""
    assert "red title end" == clean("\x1b[31mred\x1b[0m \x1b]0;evil\x07title\u202e \U000e0041end")


def test_opening():
    """As many sentences as it takes to say something, without marks and code."""
    assert "Good. I fix the parser of the configuration file, then its tests." == opening(
        "## Good.\n\n- I fix the **parser** of the `configuration` file, then its tests. More of it."
    )
    assert "Das ist gut. Und das auch." == opening("Das ist gut. Und das auch.")
    assert "修复了。 然后" == opening("修复了。 然后")
    assert "" == opening("```\ncode\n```")


def test_request():
    """A prompt is what it asks for: the words before a plan are not the goal."""
    assert "Add a login page\nWith tests." == request(
        "Implement the following plan:\n\n# Add a login page\nWith tests."
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "The test fails. Let me look at the parser first. It is old.",
            "Let me look at the parser first.",
        ),
        ("Done.\n\nNext: write the documentation", "Next: write the documentation"),
        ("Good. Now I'll fix it.\n- I will also add a test.", "I will also add a test."),
        ("All tests pass.", ""),
        ("测试失败了。 现在修复解析器：", "现在修复解析器："),
        ("letting go", ""),
    ],
)
def test_last_intention(text, expected):
    """The last sentence that announces work, if there is one."""
    assert expected == last_intention(text)


def todo(key, text="", status="") -> Todo:
    return Todo(key, text, status)


def test_todos_of_every_family():
    """A whole list replaces what was known; single tasks are added, changed and deleted."""
    state = folded(
        Listed(
            origin(1), (todo("0", "Write it", "completed"), todo("1", "Test it", "in_progress"))
        ),
        Planned(origin(2), todo("2", "Ship it", "pending")),
        Planned(origin(3), todo("1", status="completed")),
        Planned(origin(4), todo("9", "Forget it", "pending")),
        Planned(origin(5), todo("9", status="deleted")),
    )

    assert [
        ("0", "completed", "Write it"),
        ("1", "completed", "Test it"),
        ("2", "pending", "Ship it"),
    ] == [(key, status, value.text) for key, status, value in state.todos]
    assert state == load(dump(state))


def test_shorten_at_a_word():
    """Long lines end at a word, with an ellipsis."""
    assert "one two…" == shorten("one two three", 10)
    assert "x" * 9 + "…" == shorten("x" * 30, 10)


# Built from pieces, so that no scanner takes this file for a leak.
SECRETS = {
    "aws-key": "AKIA" + "ABCDEFGHIJKLMNOP",
    "github-token": "ghp_" + "aB3" * 12,
    "gitlab-token": "glpat-" + "aB3_" * 6,
    "slack-token": "xoxb-" + "1234567890-abcdefghij",
    "stripe-key": "sk_live_" + "a1B2c3D4e5F6g7H8",
    "anthropic-key": "sk-ant-" + "api03-" + "aB3-" * 10,
    "openai-key": "sk-proj-" + "aB3" * 12,
    "google-key": "AIza" + "aB3xY" * 7,
    "npm-token": "npm_" + "aB3" * 12,
    "pypi-token": "pypi-" + "AgEIcHlwaS5vcmc" * 5,
    "jwt": "eyJhbGciOiJIUzI1NiJ9." + "eyJzdWIiOiIxMjM0NTY3ODkwIn0." + "abc-DEF_123",
    "private-key": "-----BEGIN RSA PRIVATE KEY-----\nMIIE"
    + "abc\n" * 5
    + "-----END RSA PRIVATE KEY-----",
    "url-password": "https://user:" + "hunter2x" + "@example.com/x",
    "bearer-token": "Authorization: Bearer " + "abcdef0123456789abcdef",
    "assignment": "DB_PASSWORD=" + "s3cr3t-value-9",
    "hugging-face-token": "hf_" + "aB3" * 12,
    "basic-auth": "curl -u admin:" + "S3cretPw" + " host",
    "docker-token": "dckr_pat_" + "aB3_" * 6,
    "sendgrid-key": "SG." + "aB3" * 7 + "." + "xY9" * 14,
    "telegram-token": "123456789:" + "AA" + "aB3" * 11,
    "digitalocean-token": "dop_v1_" + "0a1b" * 16,
    "doppler-token": "dp.pt." + "aB3x" * 10,
    "databricks-token": "dapi" + "0a1b" * 8,
    "vault-token": "hvs." + "aB3x" * 7,
    "newrelic-key": "NRAK-" + "A1B2" * 6,
    "shopify-token": "shpat_" + "0a1b" * 8,
    "sonar-token": "sqp_" + "0a1b" * 10,
    "sourcegraph-token": "sgp_" + "0a1b" * 10,
    "age-key": "AGE-SECRET-KEY-1" + "Q2" * 29,
    "linear-key": "lin_api_" + "aB3x" * 10,
    "notion-token": "ntn_" + "aB3x" * 11,
    "supabase-token": "sbp_" + "0a1b" * 10,
    "sentry-token": "sntrys_" + "aB3x" * 12,
    "grafana-token": "glsa_" + "aB3x" * 10,
    "postman-key": "PMAK-" + "0a1b" * 6 + "-" + "0a" * 17,
    "figma-token": "figd_" + "aB3x" * 10,
    "rubygems-key": "rubygems_" + "0a1b" * 12,
    "crates-token": "cio" + "aB3x" * 8,
    "pulumi-token": "pul-" + "0a1b" * 10,
    "groq-key": "gsk_" + "aB3x" * 13,
    "xai-key": "xai-" + "aB3x" * 20,
    "perplexity-key": "pplx-" + "aB3x" * 12,
    "replicate-token": "r8_" + "aB3x" * 9 + "z",
    "tavily-key": "tvly-" + "aB3x" * 8,
    "square-token": "sq0atp-" + "aB3x" * 6,
    "adafruit-key": "aio_" + "aB3x" * 7,
    "odt-key": "odt_" + "aB3x" * 8,
    "twitch-key": "live_" + "12345678_" + "aB3x" * 7,
    "azure-key": "AccountKey=" + "aB3x" * 21 + "==",
    "okta-token": "SSWS " + "00" + "aB3x" * 10,
    "chat-webhook": "https://discord.com/api/webhooks/" + "1234567890123/" + "aB3x" * 16,
    "password-hash": "$2a$12$" + "aB3x" * 13,
    "password-flag": "-Password " + "hunter2" * 5,
    "atlassian-token": "ATATT3" + "aB3x" * 40,
    "slack-webhook": "https://hooks.slack.com/services/" + "T0000/B0000/XXXXXXXXXXXXXXXXXXXX",
}


@pytest.mark.parametrize("kind", SECRETS)
def test_secrets_are_masked_by_kind(kind):
    """Each kind is masked wherever it stands, and named."""
    secret = SECRETS[kind]
    masked, found = redact(f"before {secret} after")

    assert kind in found
    assert f"[redacted:{kind}]" in masked
    assert secret[len(secret) // 2 - 6 : len(secret) // 2 + 2] not in masked
    assert masked.startswith("before ")


@pytest.mark.parametrize(
    "text",
    [
        "password=correcthorsebattery",
        "SECRET_KEY='django-insecure-abc123'",
        "password: hunter2",
        "token=abcdefgh",
        "password=P@ss$word1",
        "password=" + "x1y" * 300,
        '{"api_key": "abc123def456"}',
        "MY_ACCESS_TOKEN => zyxwvutsrq",
    ],
)
def test_assignments_are_masked(text):
    """A name that says what it is, a sign and a value: the value goes."""
    masked, found = redact(text)

    assert ("assignment",) == found
    assert masked.rstrip("'\"}").endswith("[redacted:assignment]")


@pytest.mark.parametrize(
    "text",
    [
        "max_tokens=4096",
        "the token: see below",
        "commit 3f786850e387550fdab836ed7e6dc881de23001b",
        "id 123e4567-e89b-12d3-a456-426614174000",
        '"integrity": "sha512-abc123=="',
        "password: required",
        "the api_key parameter is optional",
        "token = os.environ['TOKEN']",
        "secret=$SECRET",
        "password=<your password>",
        "Run `make password` first",
        "https://example.com:8080/path",
        "sk-learn is a library; task-runner too",
    ],
)
def test_look_alikes_are_left_alone(text):
    """Hashes, UUIDs, words and placeholders are no secrets."""
    assert (text, ()) == redact(text)


@pytest.mark.timeout(30)
@pytest.mark.parametrize(
    "unit",
    [
        "1",
        "-",
        "a",
        "0f",
        "eyJ-",
        "eyJa.",
        "sk-",
        "://a:",
        "key_",
        "password ",
        "\x1b]",
        "-----BEGIN ",
    ],
)
def test_no_text_takes_its_square(unit):
    """64 KiB of whatever takes milliseconds; a rule that backtracks would take minutes."""
    text = unit * (65536 // len(unit))
    redact(text)
    clean(text)
    opening(text)
    request(text)
    last_intention(text)


def test_redaction_is_stable():
    """What is masked once is not masked again."""
    masked, _ = redact(" ".join(SECRETS.values()))

    assert (masked, ()) == redact(masked)


def test_hidden_characters_do_not_hide_a_secret():
    """A token with an invisible character in it, or behind a lot of space, is masked, too."""
    token = SECRETS["github-token"]

    assert "[redacted:github-token]" == redact_values(token[:2] + "\u200b" + token[2:])
    assert "aB3" not in keep("Fix " + " " * 8160 + token, 300)[0]
    assert "hunter2x" not in redact("redis://:hunter2x@host/0")[0]


def test_a_secret_is_never_cut_before_it_is_recognised():
    """A secret at the edge of the limit is masked, not halved."""
    kept, count = keep("x" * 40 + " " + SECRETS["github-token"], 50)

    assert 1 == count
    assert "ghp_" not in kept


def test_every_rule_has_an_example():
    """No rule is without a test."""
    assert set(_RULES) == set(SECRETS)
