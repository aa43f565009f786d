"""A track record as a message, and back."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handoffd.links import agent_mail
from handoffd.tracks import message
from handoffd.tracks.record import (
    EPIC_TRIGGERS,
    SECTIONS,
    TRIGGERS,
    UNKNOWN,
    TrackRecord,
    parse,
    render,
)

CREATED = "2025-12-29T10:00:00.123Z"
PATH = "conductor/handoffs/auth/2025-12-29_10-00-00-123_auth_epic-end.md"
RECORD = TrackRecord(
    timestamp=CREATED,
    trigger="epic-end",
    track_id="auth-system_20251229",
    bead_id="E1-user-login",
    git_commit="abc123f",
    git_branch="feat/auth-system",
    validation_snapshot={"gates_passed": ["design", "spec"], "current_gate": "plan-execution"},
    sections={
        "Context": ["Login works.", "", "- Decisions made: RS256"],
        "Changes": ["- `src/auth.ts:10-45` - tokens"],
        "Learnings": [],
        "Next Steps": ["1. [ ] Refresh tokens", "2. [x] Sign them"],
    },
)
BODY = f"""\
## Context

- **Track:** auth-system_20251229
- **Trigger:** epic-end
- **Phase:** 2: tokens
- **Git:** feat/auth-system@abc123f
- **Bead:** E1-user-login

Login works.

- Decisions made: RS256

## Changes

- `src/auth.ts:10-45` - tokens

## Learnings

- (none)

## Next Steps

1. [ ] Refresh tokens
2. [x] Sign them

**Validation:** gates_passed=[design, spec], current_gate=plan-execution
**File:** {PATH}
"""


def test_body():
    """A message has the four sections, the facts of the record, and the path of its file."""
    assert BODY == message.body(RECORD, "2: tokens", PATH)


def test_body_of_little():
    """A record with few facts has the same form, with "unknown" and without optional lines."""
    record = TrackRecord(CREATED, "manual", "general", bead_id="E1")
    lines = message.body(record, "", "a.md").split("\n")

    assert ["## Context", "", "- **Track:** general", "- **Trigger:** manual"] == lines[:4]
    assert ["- **Phase:** unknown", "- **Git:** unknown@unknown", "", "## Changes"] == lines[4:8]
    assert ["", "**File:** a.md", ""] == lines[-3:]
    assert [] == [line for line in lines if "Validation" in line or "Bead" in line]


@pytest.mark.parametrize(
    ("expected", "brief"),
    [
        ("[HANDOFF:epic-end] auth-system_20251229 - RS256 decision", "RS256 decision"),
        ("[HANDOFF:epic-end] auth-system_20251229 - two lines", "two\n lines\x1b"),
        ("[HANDOFF:epic-end] auth-system_20251229", " "),
    ],
)
def test_subject(expected, brief):
    """A subject names the trigger, the track and the summary, in one line."""
    assert expected == message.subject(RECORD, brief)


def test_long_subject():
    """A subject is cut at the server's limit."""
    assert 200 == len(message.subject(RECORD, "x" * 500)) == agent_mail.SUBJECT_MAX


def test_importance():
    """Only the triggers at the start or end of a stretch of work have high importance."""
    important = [trigger for trigger in TRIGGERS if message.importance(trigger) == "high"]
    assert ["pre-finish", "epic-end", "epic-start", "design-end"] == important
    assert {"high", "normal"} == {message.importance(trigger) for trigger in TRIGGERS}


def test_file_mark():
    """The last line of a message names its file, by which a delivered message is recognised."""
    assert f"{message.FILE_MARK} {PATH}" == BODY.rstrip().splitlines()[-1]


def test_round_trip():
    """A message that is read again gives the record that was sent."""
    subject = message.subject(RECORD, "done")
    assert RECORD == message.read(subject, BODY, CREATED)


def lines():
    tricky = st.sampled_from(
        [
            "## Changes", "# Handoff: x | y", "\\## Context", "```", "~~~~", "---",
            "**File:** other.md", "**Validation:** gates_passed=[x], current_gate=y", "",
            "- **Track:** evil", "**Trigger:** idle", "**Author:** human", "- **Git:** a@b",
            "**Bead:** x", "**Date:** 2001-01-01", "1. [ ] step", "  indented",
        ]
    )  # fmt: skip
    plain = st.text(st.characters(exclude_categories=["C", "Zl", "Zp"]), max_size=20)
    return st.lists(tricky | plain, max_size=6)


records = st.builds(
    TrackRecord,
    timestamp=st.just(CREATED),
    trigger=st.sampled_from(TRIGGERS),
    track_id=st.from_regex(r"[a-z0-9][a-z0-9-]{0,20}(_[0-9]{8})?", fullmatch=True),
    bead_id=st.from_regex(r"([a-z0-9]+[:.-]?[a-z0-9]+)?", fullmatch=True),
    git_commit=st.from_regex(r"[0-9a-f]{7}|unknown", fullmatch=True),
    git_branch=st.from_regex(r"[a-z]+(/[a-z@]+)?|unknown", fullmatch=True),
    validation_snapshot=st.none()
    | st.fixed_dictionaries(
        {"gates_passed": st.lists(st.from_regex(r"[a-z-]{1,9}", fullmatch=True), max_size=3)},
        optional={"current_gate": st.from_regex(r"[a-z-]{1,9}", fullmatch=True)},
    ),
    sections=st.dictionaries(st.sampled_from([*SECTIONS, "Notes", ""]), lines()),
)


@given(records, st.text(max_size=30), st.text(max_size=30))
def test_round_trip_of_anything(record, phase, brief):
    """The message of any record is read as it was sent."""
    if record.trigger not in EPIC_TRIGGERS:
        record = replace(record, bead_id="")
    # A file strips blank ends, closes fences and has every section.
    expected = replace(record, sections=parse(render(record), "").sections)

    subject, body = message.subject(record, brief), message.body(record, phase, PATH)
    assert expected == message.read(subject, body, CREATED)


@given(st.text(max_size=60), st.text(), st.text(max_size=30))
def test_anything_can_be_read(subject, body, created):
    """No message makes the reader fail."""
    message.read(subject, body, created)
    message.read(f"[HANDOFF:{subject}] x", f"- **Track:** {body}", created)


# Messages from other writers


def test_subject_alone():
    """A message without a body gives the facts of its subject, with a warning."""
    found = message.read("Re: [HANDOFF:epic-end] auth - RS256 - at last", "", CREATED)

    assert ("epic-end", "auth", CREATED) == (found.trigger, found.track_id, found.timestamp)
    assert {"Context": ["RS256 - at last"]} == found.sections
    assert message.ONLY_SUBJECT == found.warning


def test_another_agents_letter():
    """The documented form is read with any case, order, line ends and bullets of its headings."""
    body = (
        "**Track**: `auth`\r\n**Trigger:** design-end\r\n* **Phase:** design\r\n"
        "Git: feat/a@b @ ABC123F\r\n\r\n## NEXT STEPS\r\n1. [ ] build\r\n\r\n"
        "## context\r\nWe chose RS256.\r\n\r\n"
        "**Validation:** gates_passed=['design', \"spec\"], current_gate=plan"
    )
    found = message.read("hello", body, CREATED)

    assert ("design-end", "auth") == (found.trigger, found.track_id)
    assert ("feat/a@b", "ABC123F") == (found.git_branch, found.git_commit)
    assert ["1. [ ] build"] == found.sections["Next Steps"]
    assert ["We chose RS256."] == found.sections["Context"]
    assert {"gates_passed": ["design", "spec"], "current_gate": "plan"} == found.validation_snapshot
    assert ("agent", "") == (found.author, found.warning)


def test_lines_after_the_text():
    """The facts of a message may follow the text of its Context."""
    body = "## Context\nWe chose RS256.\n- **Track:** auth\n- **Git:** abc123f\n"
    found = message.read("[HANDOFF:manual] other - x", body, CREATED)

    assert ("manual", "auth") == (found.trigger, found.track_id)
    assert (UNKNOWN, "abc123f") == (found.git_branch, found.git_commit)


def test_whole_file_as_a_letter():
    """A record's file that was mailed unchanged is read with its front matter."""
    found = message.read("fyi", render(RECORD), "2026-01-01T00:00:00.000Z")

    assert RECORD == found


@pytest.mark.parametrize(
    ("subject", "body"),
    [
        ("lunch?", "at noon"),
        ("", ""),
        ("[HANDOFF:] x", ""),
        ("[HANDOFF:idle]", "## Context\nx"),
        ("hello", "- **Track:** auth"),
        ("hello", "- **Trigger:** idle"),
    ],
)
def test_no_handoff(subject, body):
    """A message without a trigger or without a track is no handoff."""
    assert message.read(subject, body, CREATED) is None


def test_unknown_time():
    """A message with an unknown time is read, with a warning."""
    found = message.read("s", BODY, "yesterday")

    assert ("", message.NO_TIME) == (found.timestamp, found.warning)


@pytest.mark.parametrize(
    ("expected", "said"),
    [
        (("main", "abc123f"), "main@abc123f"),
        (("main", "abc123f"), "`main` @ `abc123f`"),
        (("user@host", "unknown"), "user@host@unknown"),
        (("", "abc123f"), "abc123f"),
        (("main", ""), "main"),
        (("", "abc123f"), "@abc123f"),
        (("", ""), ""),
    ],
)
def test_git(expected, said):
    """Branch and commit are separated, if one or both are given."""
    assert expected == message._read_git(said)
