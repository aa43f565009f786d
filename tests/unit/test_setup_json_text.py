"""Other programs' JSON files: an edit changes the wanted value and no other character."""

import json

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from handoff.common import json_edit

NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
KEYS = st.text(max_size=6)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | NUMBERS | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=12,
)
OBJECTS = st.dictionaries(KEYS, VALUES, max_size=4)
INDENTS = st.sampled_from([None, 2, 4, "\t"])


def test_a_member_is_added_at_the_end_in_the_file_s_own_indent():
    """Key order, tab indent, odd spacing and the missing final newline stay."""
    text = '{\n\t"b": [1,2 , 3],\n\t"a": {"x":1}\n}'

    assert (
        '{\n\t"b": [1,2 , 3],\n\t"a": {"x":1},\n\t"new": {\n\t\t"y": [\n\t\t\t2\n\t\t]\n\t}\n}'
    ) == json_edit.put(text, ("new",), {"y": [2]})


def test_a_text_on_one_line_stays_on_one_line():
    """A compact file stays compact."""
    text = '{"a":{},"b":[]}'

    assert '{"a":{"k":1},"b":[]}' == json_edit.put(text, ("a", "k"), 1)
    assert '{"a":{},"b":[{"k":1}]}' == json_edit.add(text, ("b",), {"k": 1})
    assert '{"a":{},"b":[],"c":{"d":1}}' == json_edit.put(text, ("c", "d"), 1)


def test_lines_keep_their_ending():
    """A file with CRLF gets CRLF."""
    text = '{\r\n  "a": 1\r\n}\r\n'

    assert '{\r\n  "a": 1,\r\n  "b": [\r\n    2\r\n  ]\r\n}\r\n' == json_edit.put(text, ("b",), [2])


@pytest.mark.parametrize("text", ["", " \n", "{}", "{ }\n"])
def test_an_empty_file_becomes_a_readable_one(text):
    """An empty file gets an indent of two."""
    assert '{\n  "a": {\n    "b": 1\n  }\n}' == json_edit.put(text, ("a", "b"), 1).strip()


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (("a",), '{\n  "b": 2,\n  "c": 3\n}'),
        (("b",), '{\n  "a": 1,\n  "c": 3\n}'),
        (("c",), '{\n  "a": 1,\n  "b": 2\n}'),
        (("d",), '{\n  "a": 1,\n  "b": 2,\n  "c": 3\n}'),
        (("a", "x"), '{\n  "a": 1,\n  "b": 2,\n  "c": 3\n}'),
    ],
)
def test_a_member_goes_without_a_trace(path, expected):
    """The first, a middle or the last member goes with its comma; a missing one changes nothing."""
    assert expected == json_edit.take('{\n  "a": 1,\n  "b": 2,\n  "c": 3\n}', path)


def test_of_a_key_that_is_there_twice_the_last_counts():
    """Of a duplicate key the last one counts, as it does for Claude Code."""
    text = '{"a": 1, "a": {"b": 2}}'

    assert 2 == json_edit.get(text, ("a", "b"))
    assert '{"a": 1, "a": {"b": 3}}' == json_edit.put(text, ("a", "b"), 3)


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ('{\n  "a": 1,\n}', "line 3, column 1"),
        ('{"a" 1}', "line 1, column 6"),
        ('{"a": NaN}', "NaN"),
        ("[" * 100_000, "nested more than 100 levels deep"),
        ("// a comment\n{}", "line 1, column 1"),
    ],
)
def test_broken_json_says_where(text, where):
    """An error in JSON names its line and column."""
    with pytest.raises(json_edit.BrokenJsonError, match=where):
        json_edit.load(text)


def test_true_is_not_one():
    """Two texts are compared as JSON values, not as Python values."""
    assert json_edit.same('{"a": true, "b": 2}', '{ "b":2, "a":true}')
    assert not json_edit.same('{"a": true}', '{"a": 1}')


@given(OBJECTS, KEYS, VALUES, INDENTS, st.booleans())
def test_put_says_what_was_meant_and_take_is_its_inverse(found, key, value, indent, ascii_only):
    """For any object and indent a new member is added, and removed without a trace."""
    assume(key not in found)
    text = json.dumps(found, indent=indent, ensure_ascii=ascii_only)

    new = json_edit.put(text, (key,), value)

    assert list({**found, key: value}.items()) == list(json.loads(new).items())
    assert text == json_edit.take(new, (key,))


@given(OBJECTS, st.lists(KEYS, min_size=1, max_size=3), VALUES, INDENTS)
def test_a_member_deep_inside(found, path, value, indent):
    """Missing objects on the path are created; the caller refuses a path through another type."""
    place = found
    for key in path[:-1]:
        place = place.get(key, {})
        assume(isinstance(place, dict))
    assume(isinstance(place, dict))

    new = json.loads(json_edit.put(json.dumps(found, indent=indent), path, value))

    for key in path[:-1]:
        found = found.setdefault(key, {})
        new = new[key]
    assert {**found, path[-1]: value} == new


@given(OBJECTS, VALUES, INDENTS)
def test_items_of_a_list(found, item, indent):
    """An item is appended to a list, and removed by its index."""
    text = json.dumps({**found, "list": [0]}, indent=indent)

    new = json_edit.add(text, ("list",), item)

    assert [0, item] == json.loads(new)["list"]
    assert text == json_edit.take(new, ("list", 1))


def test_what_differs_is_shown_and_nothing_else():
    """Equal parts are not shown, in any formatting; the path to a change is shown."""
    old = '{"key": "theirs", "hooks": {"Stop": [{"a": 1}]}, "line": "x"}'
    new = '{"line": "y", "hooks": {"Stop": [{"a": 1}, {"b": 2}], "End": []},\n"key": "theirs"}'

    assert [
        ' "hooks": {',
        '   "Stop": [',
        "+    {",
        '+      "b": 2',
        "+    },",
        "   ]",
        '+  "End": [],',
        " }",
        '-"line": "x",',
        '+"line": "y",',
    ] == [line.rstrip("\n") for line in json_edit.differences(old, new)]
    assert [] == json_edit.differences(old, old.replace(" ", "\n"))
