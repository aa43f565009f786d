"""The neutraliser: tags, calls for a person and invisible characters, in any spelling."""

import io
import json
import time

import pytest
from hypothesis import given, settings

from handoff.common.plain_text import (
    PlainStream,
    PlainText,
    attribute,
    escaped_json,
    plain,
    plain_json,
    plain_line,
    plain_values,
)
from hostile_text import CALLS, CONTROLS, TAGS, TEXTS, assert_harmless, unseen


@pytest.mark.parametrize("text", TAGS)
def test_a_tag_in_any_spelling(text):
    """No spelling of a tag remains a tag, alone or within other words."""
    for given_text in (text, f"Fix {text} it", f"{text}{text}"):
        assert_harmless(plain(given_text))
        assert plain(given_text) != given_text
        assert "system-reminder" not in text or plain_json(given_text) != f'"{given_text}"'


@pytest.mark.parametrize("text", CALLS)
def test_a_call_in_any_spelling(text):
    """A mention of the call for a person is broken up, unless calls are allowed."""
    assert_harmless(plain(f"see {text}: now"))
    if not unseen(text):
        assert "review (needed)" in plain(text) or "& " in plain(text)
        assert text == plain(text, calls=True)


@pytest.mark.parametrize("text", [*CONTROLS, "half \ud800 a character"])
def test_unseen_characters_are_shown(text):
    """Control and invisible characters are shown as escapes."""
    assert_harmless(plain(text))
    assert "\\" in plain(text)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a < b", "a < b"),
        ("a < b->c, a < b-> c", "a < b->c, a < b-> c"),
        ("a < b and c > d", "a < b and c > d"),
        ("for (i=0;i<n;i++)", "for (i=0;i < n;i++)"),
        ("x->y, 2>&1, a <= b, <3, x <- y", "x->y, 2>&1, a <= b, <3, x <- y"),
        ("x<y and y>z", "x < y and y>z"),
        ("if (x<y || y>z):", "if (x < y || y>z):"),
        ("(x<y)|(y>z), a<b and c!=d and e>f", "(x < y)|(y>z), a < b and c!=d and e>f"),
        ("x<y and y > 3", "x < y and y > 3"),
        ("x<y z='1'>w, x<br/>z, x<b>y", "x[y z='1']w, x[br/]z, x[b]y"),
        ("dict<str, list of int>", "dict[str, list of int]"),
        ("ᐸᐃᓐ ᐸ, ᚲᚨ", "ᐸᐃᓐ ᐸ, ᚲᚨ"),
        ("List<String>", "List[String]"),
        ("Mail <ann@example.invalid>, then <br>", "Mail [ann@example.invalid], then [br]"),
        ("«Bonjour», 《書名》, AT&T, R&D;", "«Bonjour», 《書名》, AT&T, R&D;"),
        ("⚠️ ▶️ 1️⃣ naïve café, Ж", "⚠️ ▶️ 1️⃣ naïve café, Ж"),
        ("one\n\ttwo\r\nthree", "one\n\ttwo\nthree"),
        ("human review is needed", "human review is needed"),
    ],
)
def test_ordinary_text_stays_readable(text, shown):
    """Comparisons, arrows, quotes and emoji stay unchanged, and a type remains readable."""
    assert shown == plain(text)


def test_a_line_of_the_log():
    """A line that is not JSON is escaped like JSON."""
    assert r"\u001b[31m \u003csystem-reminder> \u202e" == escaped_json(
        "\x1b[31m <system-reminder> \u202e"
    )


def test_one_line():
    """In a text of one line a line break is shown as an escape."""
    assert r"a\nb\tc" == plain_line("a\nb\tc")
    assert {"k\\n": ["a\\nb"], "text": "a\nb", "n": 1} == plain_values(
        {"k\n": ["a\nb"], "text": "a\nb", "n": 1}, ("text",)
    )


def test_our_own_text_passes():
    """Text of the type for harmless text is left unchanged."""
    ours = PlainText("<handoffd-context>\x1b[1m")
    assert ours is plain(ours) is plain_line(ours)
    assert plain(str(ours)) != ours


def test_attribute():
    """A value cannot close its attribute or the mark, and is bounded."""
    found = attribute('/p" at="x"><b＞›<evil', 40)
    assert 2 == found.count('"')
    assert not {*"<>＞›"} & {*found}
    assert 42 == len(attribute("\U000e0041" * 99, 40))


def test_stream():
    """A command's output is made harmless on its way out, per line and per write."""
    inner = io.StringIO()
    stream = PlainStream(inner)
    print("\x1b[2J", "<", "system-reminder>", file=stream)
    stream.writelines(["</system-reminder>\n"])
    stream.write(PlainText("<ours>"))
    assert_harmless(inner.getvalue().removesuffix("<ours>"))
    assert inner.getvalue().endswith("<ours>")


@given(TEXTS)
@settings(max_examples=200)
def test_whatever_is_said(text):
    """Any text becomes harmless, a second pass changes nothing, and JSON keeps every value."""
    once = plain(text)
    assert_harmless(once.replace("\t", " "))
    assert once == plain(str(once))
    line = plain_line(text)
    assert_harmless(line)
    assert "\n" not in line
    shown = plain_json({"k": [text]})
    assert {"k": [text]} == json.loads(shown) == json.loads(escaped_json(shown))
    assert [] == unseen(shown)
    for tag in ("</", "<s", "＜", "&lt;/", "&#"):
        assert tag not in shown or tag in ("＜", "&#")


@given(TEXTS, TEXTS)
@settings(max_examples=100)
def test_two_texts_side_by_side(one, other):
    """Two harmless texts side by side form no tag."""
    assert_harmless(plain_line(one) + " " + plain_line(other))


@pytest.mark.parametrize(
    "unit",
    [
        "<", "< ", "<a", "<a ", "&", "&amp;", "&lt;a", "human ", "handoffd-", "<\u0301", "\ufe0f", "＜a", "&#6", "a=<",
        "< a" + "\u0301" * 220, "< a" + " " * 220, "< a b=" + " " * 220, "&lt; a b=", "ᐸ a b=\u0301",
        "x<y and ", "x<y|", "human\u0301 review ", "handoffd" + "-" * 200, "&amp;lt; a ", "<\n/",
    ],
)  # fmt: skip
@pytest.mark.parametrize("make", [plain, plain_line, plain_json])
def test_no_text_takes_its_square(make, unit):
    """The time per character does not grow with the number of characters before it."""
    text = unit * (100_000 // len(unit))
    assert seconds(make, text) < SECONDS_MAX


SECONDS_MAX = 2.0  # for 100,000 characters; the slowest take a quarter of it


def seconds(make, text):
    began = time.process_time()
    make(text)
    return time.process_time() - began
