"""metadata.json: the values that are read, and that only its `handoff` section changes."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handoff.common.errors import HandoffError
from handoffd.tracks.metadata import (
    HandoffEntry,
    Metadata,
    parse,
    section_for,
    with_entry,
    with_status,
)

ENTRY = HandoffEntry("2026-01-08T17:30:00.123Z", "epic-end", "E1-jwt", "Phase 2", 5, 12, "one.md")
OTHER = ENTRY._replace(file="two.md", bead_id=None, phase_at_handoff=None)
SECTION = """{
    "status": "handed_off",
    "section_count": 1,
    "progress_percent": 41,
    "last_handoff": "2026-01-08T17:30:00.123Z",
    "history": [
      {
        "section": 1,
        "timestamp": "2026-01-08T17:30:00.123Z",
        "trigger": "epic-end",
        "bead_id": "E1-jwt",
        "phase_at_handoff": "Phase 2",
        "tasks_completed": 5,
        "tasks_total": 12,
        "file": "one.md"
      }
    ]
  }"""

# The section


@pytest.mark.seed("003", "**Decision:** Add `handoff` section to metadata.json")
@pytest.mark.seed("003", '{ "handoff": { "status": "active | handed_off"')
def test_section():
    """The section has the seed's keys in the seed's order, in the file's own indent."""
    text, section = with_entry('{\n  "a": 1\n}\n', ENTRY, "handed_off", 41)

    assert (f'{{\n  "a": 1,\n  "handoff": {SECTION}\n}}\n', 1) == (text, section)


def test_second_entry():
    """A further entry comes last, is counted, and leaves the first unchanged."""
    first, _ = with_entry("{}", ENTRY, "handed_off", 41)
    text, section = with_entry(first, OTHER, "active", 50)
    handoff = parse(text).handoff

    assert 2 == section == handoff["section_count"]
    assert ("active", 50) == (handoff["status"], handoff["progress_percent"])
    assert parse(first).handoff["history"][0] == handoff["history"][0]
    assert {"section": 2, **OTHER._asdict()} == handoff["history"][1]


def test_entry_of_the_same_file_stays_one():
    """A repeated entry changes nothing, not even a status that was set since."""
    first, _ = with_entry("{}", ENTRY, "handed_off", 41)
    resumed = with_status(first, "active")

    assert (first, 1) == with_entry(first, ENTRY, "handed_off", 41)
    assert (resumed, 1) == with_entry(resumed, ENTRY, "handed_off", 41)


@pytest.mark.parametrize(
    ("handoff", "expected"),
    [
        ({}, 1),
        ({"section_count": 4}, 5),
        ({"section_count": 1, "history": [{}, {}, {}]}, 4),
        ({"section_count": "9", "history": [{"section": 7}, 3]}, 8),
        ({"section_count": True, "history": [{"section": -1}]}, 2),
        ("no object", 1),
        ({"history": 3}, 1),
    ],
)
def test_section_for(handoff, expected):
    """The next section's number follows the greatest number that any value gives."""
    assert expected == section_for(Metadata({"handoff": handoff}), "new.md")


def test_unknown_keys_survive():
    """Others' keys in the section and in its entries stay."""
    text = '{"handoff": {"mine": [1, {"x": null}], "history": [{"section": 1, "y": 2}]}}'
    made, section = with_entry(text, ENTRY, "active", 0)
    handoff = parse(made).handoff

    assert (2, [1, {"x": None}]) == (section, handoff["mine"])
    assert {"section": 1, "y": 2} == handoff["history"][0]


@pytest.mark.parametrize(("given_percent", "kept"), [(-5, 0), (0, 0), (100, 100), (120, 100)])
def test_percent_is_bounded(given_percent, kept):
    """Progress is limited to 0 to 100 percent."""
    text, _ = with_entry("{}", ENTRY, "active", given_percent)

    assert kept == parse(text).handoff["progress_percent"]


def test_status():
    """Only the status changes, and an equal status changes nothing."""
    text, _ = with_entry('{\n\t"a" : 1.0\n}', ENTRY, "handed_off", 41)
    changed = with_status(text, "active")

    assert text.replace('"handed_off"', '"active"') == changed
    assert changed == with_status(changed, "active")


@pytest.mark.parametrize("text", ["{}", '{"handoff": {}}', '{"handoff": {"status":"active"}}'])
def test_status_that_is_so(text):
    """A track without a section is active, so no section is created for that status."""
    assert text == with_status(text, "active")


def test_status_without_a_section():
    """A section that is created for a status has the schema's defaults."""
    made = parse(with_status('{"handoff": null}', "handed_off")).handoff

    assert {
        "status": "handed_off",
        "section_count": 0,
        "progress_percent": 0,
        "last_handoff": None,
        "history": [],
    } == made


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"handoff": 3}', '"handoff" in metadata.json is no object'),
        ('{"handoff": {"history": {}}}', '"handoff.history" in metadata.json is no list'),
        ('{"handoff": {"history": 0}}', '"handoff.history" in metadata.json is no list'),
        ('{"handoff": {"x": 1e999}}', "cannot be kept"),
    ],
)
def test_section_that_is_none(text, says):
    """An invalid section is an error with a remedy, and is not replaced."""
    with pytest.raises(HandoffError, match=says) as caught:
        with_entry(text, ENTRY, "active", 0)

    assert "Repair" in caught.value.hint


# Everything else stays


STYLES = {
    "two": '{\n  "a": 1.0,\n  "b": {"c": [1e2, "\\u00e9"]}\n}\n',
    "four": '{\n    "a": 1.0,\n    "b": []\n}',
    "tab": '{\n\t"a": {},\n\t"b": "é"\n}\n\n',
    "crlf": '\ufeff{\r\n  "a": 1,\r\n  "a": 2\r\n}\r\n',
    "compact": '{"a":1,"b":2}',
    "spaced": '{"a": 1, "b": 2}\n',
    "wild": ' { "a" :1 ,\n\n   "b"\n: [ 1,\n2 ] } ',
    "one": '{"a": 1}',
    "tight": '{"a":1}',
}


@pytest.mark.parametrize("style", STYLES)
def test_other_bytes_stay(style):
    """The section is added as the last member, and every other byte stays."""
    before = STYLES[style]
    after, _ = with_entry(before, ENTRY, "active", 0)
    start = after.index('"handoff"')
    end = after.rindex("}", 0, after.rindex("}")) + 1

    rest = after[:start].rstrip().removesuffix(",") + after[end:]
    assert before == rest
    assert list(parse(before).data) == list(parse(after).data)[:-1]


@pytest.mark.parametrize(
    ("style", "piece"),
    [
        ("four", ',\n    "handoff": {\n        "status": "active",\n'),
        ("tab", ',\n\t"handoff": {\n\t\t"status": "active",\n'),
        ("crlf", ',\r\n  "handoff": {\r\n    "status": "active",\r\n'),
        ("compact", ',"handoff":{"status":"active","section_count":1,'),
        ("spaced", ', "handoff": {"status": "active", "section_count": 1,'),
        ("tight", '{"a":1,"handoff":{"status":"active",'),
    ],
)
def test_own_style(style, piece):
    """The section is written in the style of the file: indent, line ends, colons."""
    assert piece in with_entry(STYLES[style], ENTRY, "active", 0)[0]


def test_section_in_the_middle():
    """A section is replaced in its place; of two, the one that counts."""
    text = '{\n  "handoff": 1,\n  "a": 1,\n  "handoff" : {"x":1},\n  "b": 2\n}'
    made = with_status(text, "handed_off")

    assert made.startswith('{\n  "handoff": 1,\n  "a": 1,\n  "handoff" : {\n    "status": "hand')
    assert made.endswith('"x": 1\n  },\n  "b": 2\n}')


def test_escapes_stay_escapes():
    """A file with ASCII escapes keeps them, and a lone surrogate in the section survives."""
    made, _ = with_entry('{"a": "\\u00e9"}', ENTRY._replace(phase_at_handoff="Größe"), "active", 0)
    half = with_status('{"a": "é", "handoff": {"x": "\\ud800"}}', "handed_off")

    assert "Gr\\u00f6\\u00dfe" in made
    assert made.isascii()
    assert '"x": "\\ud800"' in half


values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=10)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(
    st.dictionaries(st.text(max_size=6).filter(lambda key: key != "handoff"), values, max_size=5),
    st.sampled_from([None, 0, 1, 2, 4, "\t"]),
    st.sampled_from([(",", ":"), (", ", ": ")]),
    st.booleans(),
    st.booleans(),
)
def test_any_file_keeps_its_values(data, indent, separators, escaped, windows):
    """Any file keeps all its values, and its section is as wanted."""
    text = json.dumps(data, indent=indent, separators=separators, ensure_ascii=escaped)
    text = text.replace("\n", "\r\n") if windows else text
    made, section = with_entry(text, ENTRY, "active", 3)
    found = dict(parse(made).data)

    assert {"section": 1, **ENTRY._asdict()} == found.pop("handoff")["history"][0]
    assert (data, 1) == (found, section)
    assert (made, 1) == with_entry(made, ENTRY, "active", 3)
    if data:
        body = text[: text.rindex("}")].rstrip()
        assert made.startswith(body)


# Reading


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "not valid JSON"),
        ('{\n"a": }', "in line 2"),
        ('{"a": NaN}', "NaN is no number"),
        ("[]", "is no object"),
        ('{"a": ' + "[" * 100_000, "nested more than 100 levels deep"),
        (b'{"a": "\xff"}'.decode("utf-8", "surrogateescape"), "not UTF-8"),
        ('{"a": ' + "9" * 5000 + "}", "not valid JSON"),
    ],
)
def test_what_is_no_metadata(text, says):
    """Unreadable metadata is a HandoffError with the reason."""
    with pytest.raises(HandoffError, match=says):
        parse(text)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({"beads": {"epicId": "E1", "epics": [{"id": "E2"}, {"id": "E1"}]}}, ["E1", "E2"]),
        ({"beads_epic": "my-workflow:3-lzks.1"}, ["my-workflow:3-lzks.1"]),
        ({"beads": {"epicId": None, "epics": [{"id": ""}, {"id": 3}, "x", {}]}}, []),
        ({"beads": {"epicId": "null", "epics": {}}, "beads_epic": "-rf"}, []),
        ({"beads": [], "beads_epic": "two words"}, []),
        ({"beads_epic": "x" * 1000}, []),
        ({"beads_epic": "a\nb"}, []),
        ({"beads_epic_id": "bd-2"}, ["bd-2"]),
        ({"beads_epic": "null", "beads_epic_id": "bd-2"}, ["bd-2"]),
        ({}, []),
    ],
)
def test_epics(data, expected):
    """Epics are read from four keys; an invalid id, above all the empty one, is ignored."""
    assert expected == Metadata(data).epics


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (
            {"beads_tasks": {"phase1": "e.1", "phase1_task1": "e.1.1", "phase2": "e.2"}},
            ["e.1.1", "e.2"],
        ),
        ({"beads_task_mapping": {"Phase 1 - Task 1": "x", "Phase 1 - Task 2": "x"}}, ["x"]),
        ({"beads": {"issues": ["a", "", 7], "planTasks": {"1.1": "b", "1.2": "null"}}}, ["a", "b"]),
        ({"beads_tasks": ["e.1"], "beads": {"issues": {"a": "b"}}}, []),
    ],
)
def test_tasks(data, expected):
    """Tasks are read from the mappings of every writer; the phase of a named task is none."""
    assert expected == Metadata(data).tasks


def test_properties_of_any_shape():
    """Values of the wrong type count as missing."""
    odd = Metadata({"status": 1, "workflow": [], "validation": "x", "handoff": []})
    good = Metadata({"status": "new", "workflow": {"state": "DONE"}, "validation": {"a": 1}})

    assert ("", "", None, {}) == (odd.status, odd.state, odd.validation, odd.handoff)
    assert ("new", "DONE", {"a": 1}, {}) == (good.status, good.state, good.validation, good.handoff)
