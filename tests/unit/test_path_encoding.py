"""Encoding a path as a name: compared with the contract's commands."""

import re
import subprocess

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from handoffd.contract.path_encoding import encode, encode_v1, is_v1

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
@pytest.mark.seed("002", "pwd -P | sed 's/[^a-zA-Z0-9-]/-/g'")
def test_as_sed_does(many):
    """The name equals the output of the contract's `sed`, for UTF-8 paths without a newline."""
    printed = through("\n".join(many), "sed", "s/[^a-zA-Z0-9-]/-/g")

    assert printed.split("\n") == [encode(path) for path in many]


@given(st.lists(paths, min_size=1, max_size=50))
@pytest.mark.seed("002", "**v2 change (Feb 2026):** Encoding widened")
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
@pytest.mark.seed("002", "`/Users/modha/Repos/claude-suite` →")
@pytest.mark.seed("002", "`/Users/modha/.claude` →")
@pytest.mark.seed("002", "Google Drive paths: `@`, spaces")
def test_examples(path, name):
    """The contract's own examples hold; a newline and each non-UTF-8 byte become a dash."""
    assert name == encode(path)


@given(paths)
@pytest.mark.seed("002", "**v2 change (Feb 2026):** Encoding widened")
def test_encodings_agree_in_the_end(path):
    """Encoding a name gives the same name, and a v1 name encodes to the path's v2 name."""
    assert encode(path) == encode(encode(path)) == encode(encode_v1(path))
    assert re.fullmatch(r"[a-zA-Z0-9-]*", encode(path))


@given(paths)
@pytest.mark.seed("002", "v1 and v2 produce identical results")
def test_v1_names_are_told(path):
    """A name counts as v1 exactly if the two versions differ."""
    assert is_v1(encode_v1(path)) == (encode_v1(path) != encode(path))
    assert not is_v1(encode(path))


@pytest.mark.parametrize("name", ["email", "my_app", "-home-u-app.bak", "-a_b.old", "-home-u", ""])
@pytest.mark.seed("002", "Leading dash is significant")
def test_no_v1_name(name):
    """A name without a leading dash encodes no path, and a v1 name has no dot."""
    assert not is_v1(name)
