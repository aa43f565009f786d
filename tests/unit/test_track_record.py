"""A track record: written in the template's form, and read from any writer."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from handoffd.tracks import record as records
from handoffd.tracks.record import (
    EPIC_TRIGGERS,
    SECTIONS,
    TRIGGERS,
    TrackRecord,
    file_name,
    files_named,
    next_steps,
    parse,
    read_name,
    render,
    summary,
)

NAME = "2025-12-29_03-00-00-123_auth-system_design-end.md"
PLAIN = TrackRecord(
    timestamp="2025-12-29T10:00:00.123+07:00",
    trigger="design-end",
    track_id="auth-system_20251229",
    git_commit="abc123f",
    git_branch="feat/auth-system",
    validation_snapshot={
        "gates_passed": ["design", "spec", "plan-structure"],
        "current_gate": "plan-execution",
        "retries": 0,
        "last_failure": None,
    },
    sections={
        "Context": ["Keys are rotated.", "- Track: auth-system_20251229", "- Phase: Phase 2"],
        "Changes": ["- `src/auth.ts:10-45` - Signs tokens"],
        "Next Steps": ["1. [ ] Write the tests"],
    },
)
TEMPLATE = """---
timestamp: 2025-12-29T10:00:00.123+07:00
trigger: design-end
track_id: auth-system_20251229
git_commit: abc123f
git_branch: feat/auth-system
author: agent
validation_snapshot:
  gates_passed: [design, spec, plan-structure]
  current_gate: plan-execution
  retries: 0
  last_failure: null
---

# Handoff: auth-system_20251229 | design-end

## Context

Keys are rotated.
- Track: auth-system_20251229
- Phase: Phase 2

## Changes

- `src/auth.ts:10-45` - Signs tokens

## Learnings

- (none)

## Next Steps

1. [ ] Write the tests
"""

# Rendering


def test_template():
    """A record has the template's front matter, title and sections, byte for byte."""
    assert TEMPLATE == render(PLAIN)


@pytest.mark.parametrize("trigger", TRIGGERS)
def test_bead_is_for_epics(trigger):
    """The bead comes after the track, and only with a trigger of an epic."""
    lines = render(replace(PLAIN, trigger=trigger, bead_id="E1-login")).split("\n")

    assert (["bead_id: E1-login"] if trigger in EPIC_TRIGGERS else []) == [
        line for line in lines if line.startswith("bead_id")
    ]
    assert trigger not in EPIC_TRIGGERS or lines.index("bead_id: E1-login") == 4


def test_nothing_optional():
    """Without git and validation the values are unknown, and no snapshot is written."""
    text = render(TrackRecord("2025-12-29T10:00:00.123Z", "manual", "general", git_commit=""))

    assert "git_commit: unknown\ngit_branch: unknown\nauthor: agent\n---\n" in text
    assert 4 == text.count("- (none)")


@pytest.mark.parametrize(
    ("branch", "written"),
    [
        ("feat/auth-system", "feat/auth-system"),
        ("release-1.2.3_b", "release-1.2.3_b"),
        ("feat: x", '"feat: x"'),
        ("fix #1", '"fix #1"'),
        ("#1", '"#1"'),
        ("yes", '"yes"'),
        ("1e10", '"1e10"'),
        ("0123456", '"0123456"'),
        ("a\nb", "a b"),
        ('say "\\"', '"say \\"\\\\\\""'),
        ("*x", '"*x"'),
        ("größe/中", "größe/中"),
    ],
)
def test_values_are_yaml(branch, written):
    """A value that YAML would take for another type is quoted, and a plain one is not."""
    text = render(replace(PLAIN, git_branch=branch))

    assert f"git_branch: {written}\n" in text
    front = yaml.safe_load(text.split("---\n")[1])
    assert branch.replace("\n", " ") == front["git_branch"]


def test_other_sections_come_after():
    """Sections beyond the template come after those of the template."""
    sections = {"Workers": ["- w1"], "": ["A word before."], "Context": ["- c"]}
    titles = [
        line for line in render(replace(PLAIN, sections=sections)).split("\n") if line[:2] == "##"
    ]

    assert [*(f"## {name}" for name in SECTIONS), "## Workers"] == titles


def test_a_line_stays_in_its_section():
    """A text that looks like a heading, or opens a fence, does not swallow the next section."""
    sections = {"Context": ["## Next Steps", "1. [ ] evil", "```", "# comment"]}
    found = parse(render(replace(PLAIN, sections=sections)), NAME)

    assert [*sections["Context"], "```"] == found.sections["Context"]
    assert [] == found.sections["Next Steps"]


# Round trip


words = st.text(
    st.sampled_from("abz XY09'\"éß中😀:.,()[]{}#-*`_/\\|&!%@~\u2028\x00\x07"), max_size=30
)
one_line = words.map(records.one_line).filter(bool)
# A lone "(none)" is an empty section; a fence is closed.
body = words.filter(lambda line: "\x00" not in line and "```" not in line and "~~~" not in line)
bodies = st.lists(body, max_size=4).map(records.stripped)
values = st.recursive(
    one_line,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(one_line, inner, max_size=3)
    ),
    max_leaves=6,
)


@st.composite
def whole_records(draw):
    """Return records in the form that they have after reading."""
    trigger = draw(st.sampled_from(TRIGGERS))
    ids = one_line.filter(lambda text: text not in records._NO_BEAD)
    sections = {name: draw(bodies) for name in SECTIONS}
    others = draw(st.dictionaries(one_line.filter(lambda title: title not in SECTIONS), bodies))
    return TrackRecord(
        timestamp=draw(st.sampled_from(["2025-12-29T10:00:00.123+07:00", "2026-01-01T00:00:00Z"])),
        trigger=trigger,
        track_id=draw(one_line),
        bead_id=draw(ids) if trigger in EPIC_TRIGGERS else "",
        git_commit=draw(one_line),
        git_branch=draw(one_line),
        author=draw(one_line),
        validation_snapshot=draw(st.dictionaries(one_line, values, min_size=1, max_size=3)),
        sections=sections | others,
        others=draw(
            st.dictionaries(
                one_line.filter(lambda key: key not in records._OURS), values, max_size=3
            )
        ),
    )


@given(whole_records())
def test_round_trip(made):
    """A rendered record parses to the same values and lines."""
    assert made == parse(render(made), "x.md")


@given(whole_records(), st.sampled_from(["\r\n", "\r"]))
def test_line_ends_do_not_matter(made, end):
    """CRLF, CR and a byte order mark are read like LF."""
    assert made == parse("\ufeff" + render(made).replace("\n", end), "x.md")


@given(st.text(max_size=600), st.text(max_size=60))
def test_any_text_is_read(text, name):
    """No text and no name makes the parser fail, and its result can be rendered again."""
    found = parse(text, name)
    again = parse(render(found), "x.md")

    assert again == parse(render(again), "x.md")
    assert 40 >= len(summary(found))
    assert isinstance(next_steps(found) + files_named(found), list)


@given(whole_records())
def test_front_matter_is_yaml(made):
    """Every YAML reader reads the front matter, for any values."""
    front = render(made).split("\n---\n", 1)[0].removeprefix("---\n")
    data = yaml.load(front, Loader=yaml.BaseLoader)

    assert (made.git_branch, made.track_id) == (data["git_branch"], data["track_id"])


# Other writers


def test_broken_yaml():
    """Broken front matter is reported, and the name gives the other values."""
    found = parse("---\ntrigger: [\n---\n\n## Context\n\nHello\n", NAME)

    assert "Malformed frontmatter in handoff. Using filename metadata." == found.warning
    assert ("2025-12-29T03:00:00.123Z", "design-end", "auth-system") == (
        found.timestamp,
        found.trigger,
        found.track_id,
    )
    assert ["Hello"] == found.sections["Context"]


@pytest.mark.parametrize(
    "front",
    [
        "a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]",
        "a: " + "[" * 50 + "]" * 50,
        "a: " + "x" * 20000,
        "- a list",
        "{1: 2",
        "a: \x00",
        "!!python/object:os.system {}: 1",
    ],
)
def test_hostile_yaml(front):
    """Bombs, deep nesting, large input and other types than mappings are refused as malformed."""
    assert records.MALFORMED == parse(f"---\n{front}\n---\n# x\n", NAME).warning


def test_front_matter_that_never_ends():
    """Front matter without an end is malformed, and the sections are still read."""
    found = parse("---\ntrigger: idle\n\n## Context\nHello", NAME)

    assert (records.MALFORMED, ["Hello"]) == (found.warning, found.sections["Context"])


def test_scalars_are_text():
    """Dates, numbers and YAML's special words are read as the typed text."""
    front = "timestamp: 2025-12-29\ntrigger: manual\ntrack_id: 007\ngit_commit: 1234567\nsection: 3"
    found = parse(f"---\n{front}\nbead_id: null\n---\n", "x.md")

    assert ("2025-12-29", "007", "1234567", "") == (
        found.timestamp,
        found.track_id,
        found.git_commit,
        found.bead_id,
    )
    assert {"section": "3"} == found.others


def test_no_front_matter():
    """Without front matter bold lines are used, and the name and directory give the rest."""
    text = "# Done with E2\n\n**Trigger:** epic-end\n**Bead:** `E2`\n**Date:** 2026-01-08\n\n## Summary\n\nAll of E2\n"
    path = "conductor/handoffs/auth_20260101/archive/2026-01-08_17-30_epic-start.md"
    found = parse(text, path)

    assert ("epic-end", "E2", "auth_20260101", "2026-01-08T17:30:00.000Z") == (
        found.trigger,
        found.bead_id,
        found.track_id,
        found.timestamp,
    )
    assert records.MISSING == found.warning
    assert ("unknown", "unknown") == (found.git_commit, found.author)
    assert "All of E2" == summary(found)


def test_time_that_is_none():
    """An unreadable time is replaced by that of the name, or by none."""
    text = "---\ntimestamp: yesterday\n---\n"

    assert "2025-12-29T03:00:00.123Z" == parse(text, NAME).timestamp
    assert "" == parse(text, "x.md").timestamp


def test_headings_in_code_are_none():
    """A heading within a fence belongs to the code."""
    text = "## Context\n~~~\n## Changes\n~~~\nafter\n## context\nmore"

    assert {"Context": ["~~~", "## Changes", "~~~", "after", "more"]} == parse(text, NAME).sections


@pytest.mark.parametrize("part", ["*", " ", "`", "# ", "- ", "**a", "](", "\\", "\n", "- [ ] a\n"])
@pytest.mark.parametrize("title", ["## ", "## Context\n", "## Changes\n", "## Next Steps\n"])
def test_reading_takes_no_more_than_it_weighs(title, part):
    """A hostile file is read in linear time: quadratic time would never end."""
    found = parse(title + part * 100_000 + "a\x0b", NAME)

    assert 40 >= len(summary(found))
    assert 100 >= len(next_steps(found))
    assert len(render(found)) > 0
    assert 200 >= len(files_named(found))


# Names


def test_name_of_a_record():
    """The name has the time in UTC, the track without its date, and the trigger."""
    assert NAME == file_name(PLAIN, [])


def test_name_of_an_epic():
    """The bead of an epic comes before the trigger; other triggers leave it out."""
    epic = replace(PLAIN, trigger="epic-end", bead_id="my-workflow:3-lzks.1")

    assert "2025-12-29_03-00-00-123_auth-system_my-workflow-3-lzks.1_epic-end.md" == file_name(
        epic, []
    )
    assert NAME == file_name(replace(epic, trigger="design-end"), [])


def test_taken_names():
    """A taken name, in any case, gets a number after the trigger."""
    taken = [NAME.upper()]
    second = file_name(PLAIN, taken)

    assert NAME.replace(".md", "-1.md") == second
    assert NAME.replace(".md", "-2.md") == file_name(PLAIN, [*taken, second])


@given(st.text(max_size=300), st.text(max_size=300), st.text(max_size=60), st.text(max_size=40))
def test_any_name_is_safe(track, bead, timestamp, trigger):
    """For any values the name is one visible component of at most 200 bytes."""
    name = file_name(TrackRecord(timestamp, trigger, track, bead_id=bead), [])

    assert not set(name) - set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
    assert name[0].isdigit()
    assert 200 >= len(name)


EPOCH = datetime.fromtimestamp(0, UTC)
slugs = st.text(st.sampled_from("abc09-"), min_size=1, max_size=20)


@given(
    st.integers(1, 200 * 365 * 86400 * 1000),
    slugs,
    slugs,
    st.sampled_from(TRIGGERS),
    st.integers(0, 3),
)
def test_names_are_read_again(milliseconds, track, bead, trigger, number):
    """Time, track and trigger of a name are read from both ends."""
    moment = EPOCH + timedelta(milliseconds=milliseconds)
    timestamp = f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"
    made = TrackRecord(timestamp, trigger, f"{track}_x_20251229", bead_id=bead)
    name = file_name(made, [])
    if number:
        name = name.replace(".md", f"-{number}.md")
    slug = f"{track}_x_{bead}" if trigger in EPIC_TRIGGERS else f"{track}_x"

    assert (timestamp, slug, trigger) == read_name(name)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("2026-01-08_17-30_epic-end.md", ("2026-01-08T17:30:00.000Z", "", "epic-end")),
        ("2026-01-08_17-30-15_a_b_idle-12.md", ("2026-01-08T17:30:15.000Z", "a_b", "idle")),
        ("2026-01-08_17-30_a_session.md", ("2026-01-08T17:30:00.000Z", "a_session", "")),
        ("2026-01-08_17-30.md", ("2026-01-08T17:30:00.000Z", "", "")),
        ("2026-02-30_17-30_idle.md", None),
        ("2026-01-08_25-30_idle.md", None),
        ("2026-01-08_17-30_idle.txt", None),
        ("index.md", None),
        ("", None),
        ("_.md", None),
    ],
)
def test_names_of_others(name, expected):
    """A time without seconds is accepted; a name without a time is not a record's."""
    assert expected == read_name(name)


# Values for other modules


def with_section(title, *lines):
    return TrackRecord("", "manual", "general", sections={title: lines})


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (
            ["", "- Track: x", "- **Phase:** 2", "- The **keys** are rotated"],
            "The keys are rotated",
        ),
        (["- Track: x", "- Phase: 2"], "Track: x"),
        (["```", "code", "```", "said"], "said"),
        (["- (none)"], ""),
        (["word " * 20], "word word word word word word word…"),
    ],
)
def test_summary(lines, expected):
    """The summary is the first line beyond track and phase, or else the first line."""
    assert expected == summary(with_section("Context", *lines))


def test_next_steps():
    """Steps are items that are not ticked, without bullet, number and box."""
    found = with_section(
        "Next Steps", "1. [ ] one", "2. [x] two", "3) three", "   - [~] four", "- [-] five", "so"
    )

    assert ["one", "three", "four"] == next_steps(found)
    assert ["just this"] == next_steps(with_section("Next", "just this"))
    assert [] == next_steps(with_section("Next Steps", "- (none)"))


def test_files_named():
    """Files are the paths in backticks in Changes, once each, without line numbers and code."""
    found = with_section(
        "Changes",
        "- `src/a.py:10-45` - calls `foo()` of `src/b.py:3`, not `x = 1`",
        "- `Makefile` - and `src/a.py` again, `a word`",
        "see `https://example.org/x.md` and `README.md`",
        "```",
        "`c.py`",
        "```",
    )

    assert ["src/a.py", "src/b.py", "Makefile", "README.md"] == files_named(found)


def test_front_matter_is_believed():
    """If there is front matter, a bold line below it is text and sets no value."""
    text = (
        "---\ntimestamp: 2026-01-08T10:00:00Z\ntrigger: manual\ntrack_id: a\n---\n**Bead:** x-1\n"
    )

    assert "" == parse(text, "2026-01-08_10-00-00-000_a_manual.md").bead_id
