"""The log of a track: one row per record, and a person's lines left alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handoffd.tracks.index import Row, files_of, is_sound, with_rows

NOW = "2026-01-09T08:00:00Z"
LATER = "2026-01-10T08:00:00Z"
ONE = Row("2026-01-08T17:30:00.123Z", "design-end", "", "RS256 it is", "one.md")
TWO = Row("2026-01-08T19:30:00.000+01:00", "epic-end", "E1", "Keys | done\nnow", "two.md")
INDEX = """---
track_id: auth-system
created: 2026-01-09T08:00:00Z
last_updated: 2026-01-09T08:00:00Z
---

# Handoff Log: auth-system

| Timestamp | Trigger | Bead | Summary | File |
|-----------|---------|------|---------|------|
| 2026-01-08 17:30:00.123 | design-end | - | RS256 it is | [→](./one.md) |
"""
SECOND = "| 2026-01-08 18:30:00.000 | epic-end | E1 | Keys \\| done now | [→](./two.md) |\n"


def test_new_index():
    """A new index has the header of the template, and creating one is no repair."""
    assert (INDEX, False) == with_rows(None, "auth-system", [ONE], NOW)


def test_general_has_its_own_heading():
    """The log for work outside of tracks says so in its heading."""
    text, _ = with_rows(None, "general", [ONE], NOW)

    assert (
        "# Handoff Log: General\n\nHandoffs for work outside of specific tracks.\n\n| Time" in text
    )


def test_a_row_is_added():
    """A new row comes last, escaped, and the time of the change is set."""
    expected = INDEX.replace(f"last_updated: {NOW}", f"last_updated: {LATER}") + SECOND

    assert (expected, False) == with_rows(INDEX, "auth-system", [ONE, TWO], LATER)


def test_nothing_new_changes_nothing():
    """An index with all rows stays unchanged, including its time."""
    assert (INDEX, False) == with_rows(INDEX, "auth-system", [ONE], LATER)


def test_lines_of_others_stay():
    """Rows and lines from other writers stay byte for byte, in any place."""
    theirs = INDEX.replace("RS256 it is", "my  own words").replace("# Hand", "A note.\n\n# Hand")
    text, _ = with_rows(theirs + "\nA word below.\n", "auth-system", [ONE, TWO], NOW)

    assert theirs + SECOND + "\nA word below.\n" == text


def test_windows_line_ends_stay():
    """In a file with CRLF the new row has CRLF; an unterminated last line gets an end."""
    text, _ = with_rows(INDEX.replace("\n", "\r\n").rstrip(), "auth-system", [ONE, TWO], NOW)

    assert (INDEX + SECOND).replace("\n", "\r\n") == text


def test_columns_are_matched():
    """A row is filled for the columns of the table, whichever these are."""
    header = "| Timestamp | File | Archived | Mood |\n|---|---|---|---|\n"
    rows = [ONE, TWO._replace(file="archive/two.md")]
    text, _ = with_rows(header, "auth-system", rows, NOW)

    assert (
        header
        + "| 2026-01-08 17:30:00.123 | [→](./one.md) | - | - |\n"
        + "| 2026-01-08 18:30:00.000 | [→](./archive/two.md) | ✅ | - |\n"
        == text
    )


def test_an_archived_record_keeps_its_row():
    """A record that was moved to the archive keeps its row."""
    moved = ONE._replace(file="archive/one.md")

    assert (INDEX, False) == with_rows(INDEX, "auth-system", [moved], LATER)


def test_last_updated_is_added():
    """Front matter without the time of the change gets it; a file without any gets none."""
    without = INDEX.replace(f"last_updated: {NOW}\n", "")
    bare = INDEX.partition("---\n\n")[2]

    assert INDEX + SECOND == with_rows(without, "auth-system", [ONE, TWO], NOW)[0]
    assert bare + SECOND == with_rows(bare, "auth-system", [ONE, TWO], NOW)[0]


# Repair


@pytest.mark.parametrize("broken", ["", "\n", None])
def test_missing_index_is_repaired(broken):
    """If there are records but no sound index, it is created again and reported as repaired."""
    text, repaired = with_rows(broken, "auth-system", [ONE, TWO], NOW)

    assert (INDEX + SECOND, True) == (text, repaired)


def test_repair_keeps_what_a_person_wrote():
    """A table without its header is created again, with a person's lines and table below it."""
    mine = "Mine.\n\n| my | table |\n|---|---|\n| a | b |\n"
    broken = INDEX.replace("| Timestamp |", "| Time |").replace(NOW, "2025-01-01T00:00:00Z")
    text, repaired = with_rows(f"{broken}\n{mine}", "auth-system", [ONE, TWO], NOW)

    created = INDEX.replace(f"created: {NOW}", "created: 2025-01-01T00:00:00Z")
    assert (f"{created}{SECOND}\n{mine}", True) == (text, repaired)
    assert (text, False) == with_rows(text, "auth-system", [ONE, TWO], LATER)


def test_repair_with_archive():
    """A repaired index shows the archived records."""
    moved = ONE._replace(file="archive/one.md")
    text, _ = with_rows("junk", "auth-system", [moved, TWO], NOW)

    assert "| Summary | File | Archived |\n" in text
    assert "[→](./archive/one.md) | ✅ |\n" in text
    assert "[→](./two.md) | - |\n" in text
    assert text.endswith("\n\njunk\n")


def test_table_without_files_is_none():
    """A table without a column for the file is not sound."""
    assert not is_sound("| Timestamp | Trigger |\n|---|---|\n")
    assert is_sound(INDEX)
    assert not is_sound(None)


def test_files():
    """The file of a row is its last link, in any notation."""
    rows = (
        "| [x](./not.md) | [→](./a.md) |\n| [→](b.md) |\n| [→](<./c d.md>) |\n| [→](./e%20f.md) |\n"
    )

    assert {"a.md", "b.md", "c d.md", "e f.md"} == files_of(
        f"| Timestamp | File |\n|---|---|\n{rows}\n| [→](./below.md) |\n"
    )


# Arbitrary input


names = st.text(st.characters(exclude_characters="/", exclude_categories=["Cs", "Cc"]), max_size=20)
rows = st.builds(
    Row,
    st.sampled_from([ONE.timestamp, TWO.timestamp, "no time"]),
    st.text(max_size=20),
    st.text(max_size=20),
    st.text(max_size=200),
    st.builds(lambda folder, name: f"{folder}{name}x.md", st.sampled_from(["", "archive/"]), names),
)
texts = st.one_of(
    st.none(),
    st.text(max_size=200),
    st.text(max_size=100).map(lambda text: f"{INDEX}{text}"),
    st.text(max_size=100).map(
        lambda text: f"\ufeff---\n{text}\n---\n{INDEX}".replace("\n", "\r\n")
    ),
)


@given(texts, st.lists(rows, max_size=4, unique_by=lambda row: row.file.rsplit("/")[-1]))
def test_any_text_gets_each_row_once(text, given_rows):
    """Any file ends up with one row per record, and then stays unchanged."""
    made, _ = with_rows(text, "auth-system", given_rows, NOW)
    again, repaired = with_rows(made, "auth-system", given_rows, LATER)

    assert {row.file.rsplit("/")[-1] for row in given_rows} <= {
        file.rsplit("/")[-1] for file in files_of(made)
    }
    assert (made, False) == (again, repaired)


@given(st.lists(rows, min_size=1, max_size=4, unique_by=lambda row: row.file.rsplit("/")[-1]))
def test_cells_stay_cells(given_rows):
    """Every row has as many cells as the header, for any content."""
    made, _ = with_rows(None, "auth-system", given_rows, NOW)
    table = [line for line in made.split("\n") if line.startswith("|")]
    pipes = [line.replace("\\\\", "").replace("\\|", "").count("|") for line in table]

    assert len(given_rows) + 2 == len(table)
    assert 1 == len(set(pipes))
