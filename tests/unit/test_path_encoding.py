"""Encoding a path as a name: compared with the contract's commands and Claude Code's names."""

import re
import subprocess

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from handoffd.contract.path_encoding import claude_code_name, encode, encode_v1, is_v1

ENVIRONMENT = {"LC_ALL": "C.UTF-8", "PATH": "/usr/bin:/bin"}

# A newline would start a new line for sed; a path has no NUL; surrogates are not UTF-8.
characters = st.characters(exclude_characters="\n\0", exclude_categories=["Cs"])
paths = st.lists(st.text(characters, max_size=20), max_size=8).map(lambda p: "/" + "/".join(p))


def through(path: str, *command: str) -> str:
    done = subprocess.run(
        command, input=path.encode(), env=ENVIRONMENT, capture_output=True, check=True
    )
    return done.stdout.decode()


@given(st.lists(paths, min_size=1, max_size=50))
@example(["/Users/modha/.claude"])
@example(["/home/u/Meine Übung/a_b@c~ (1)"])
@example(["/home/u/e\u0301/\U0001f600/\u4e2d\u6587"])
def test_as_sed_does(many):
    """The name equals the output of the contract's `sed`, for UTF-8 paths without a newline."""
    printed = through("\n".join(many), "sed", "s/[^a-zA-Z0-9-]/-/g")

    assert printed.split("\n") == [encode(path) for path in many]


@given(st.lists(paths, min_size=1, max_size=50))
def test_v1_as_tr_does(many):
    """The first version's name equals the output of `tr`."""
    assert through("\n".join(many), "tr", "/.", "-").split("\n") == list(map(encode_v1, many))


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/Users/modha/Repos/claude-suite", "-Users-modha-Repos-claude-suite"),
        ("/Users/modha/.claude", "-Users-modha--claude"),
        ("/Users/m/GoogleDrive-a@b.c/My Drive/~x", "-Users-m-GoogleDrive-a-b-c-My-Drive--x"),
        ("/", "-"),
        ("/a\nb", "-a-b"),
        ("/caf\udcc3\udca9", "-caf--"),
    ],
)
def test_examples(path, name):
    """The contract's own examples hold; a newline and each non-UTF-8 byte become a dash."""
    assert name == encode(path)


@given(paths)
def test_encodings_agree_in_the_end(path):
    """Encoding a name gives the same name, and a v1 name encodes to the path's v2 name."""
    assert encode(path) == encode(encode(path)) == encode(encode_v1(path))
    assert re.fullmatch(r"[a-zA-Z0-9-]*", encode(path))


@given(paths)
def test_v1_names_are_told(path):
    """A name counts as v1 exactly if the two versions differ."""
    assert is_v1(encode_v1(path)) == (encode_v1(path) != encode(path))
    assert not is_v1(encode(path))


@pytest.mark.parametrize("name", ["email", "my_app", "-home-u-app.bak", "-a_b.old", "-home-u", ""])
def test_no_v1_name(name):
    """A name without a leading dash encodes no path, and a v1 name has no dot."""
    assert not is_v1(name)


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/tmp/a_b.c", "-tmp-a-b-c"),
        ("/tmp/ü", "-tmp--"),
        ("/tmp/u\u0308", "-tmp--"),
        ("/tmp/\U0001f600", "-tmp---"),
        ("/tmp/shp-schemas-slug.6V4NfF/" + "w" * 171, "-tmp-shp-schemas-slug-6V4NfF-" + "w" * 171),
    ],
)
def test_claude_code_names(path, name):
    """After NFC each UTF-16 unit becomes one dash, and a name of 200 characters stays whole."""
    assert name == claude_code_name(path)


def reference(path: str) -> str:
    """Return the name as the test harness computes it, which was checked against Claude Code."""
    wide = "".join(c if c.isascii() else "-" * (len(c.encode("utf-16-le")) // 2) for c in path)
    name = re.sub(r"[^A-Za-z0-9]", "-", wide)
    if len(name) <= 200:
        return name
    value, raw = 0, path.encode("utf-16-le")
    for i in range(0, len(raw), 2):
        value = (value * 31 + raw[i] + 256 * raw[i + 1]) & 0xFFFFFFFF
    value = abs(value - 2**32 if value >= 2**31 else value)
    digits = ""
    while value:
        value, rest = divmod(value, 36)
        digits = "0123456789abcdefghijklmnopqrstuvwxyz"[rest] + digits
    return f"{name[:200]}-{digits or '0'}"


def test_long_claude_code_name():
    """A name over 200 characters is cut and ends with the hash that Claude Code was seen to use."""
    path = "/tmp/shp-schemas-slug.6V4NfF/" + "w" * 172

    assert 201 == len(path)
    assert "-tmp-shp-schemas-slug-6V4NfF-" + "w" * 171 + "-vg1k1m" == claude_code_name(path)


@given(st.text(st.sampled_from("abcXYZ09/._- \U0001f600中"), max_size=500))
def test_claude_code_name_as_reference(text):
    """For short and long paths the name equals that of the reference."""
    assert reference(f"/{text}") == claude_code_name(f"/{text}")
