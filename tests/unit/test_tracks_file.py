"""The marks of tracks in conductor/tracks.md."""

from hypothesis import given
from hypothesis import strategies as st

from handoffd.tracks.tracks_file import TrackMark, read_marks

IDS = ("auth_20260301", "find_20260302", "old_20260101", "list_20260401")
TEXT = """# Project Tracks

This file tracks all major work items.

---

## [~] Track: Log in with tokens
*Link: [./conductor/tracks/auth_20260301/](./conductor/tracks/auth_20260301/)*

---

## [ ] Track: Search
*Link: [conductor/tracks/find_20260302/](conductor/tracks/find_20260302/)*

```
## [x] Track: an example
*Link: [tracks/find_20260302/](tracks/find_20260302/)*
```

## Notes

See conductor/tracks/old_20260101/ for the old work.

## [X] **Track:** Gone
*Link: [tracks/gone_20250101/](tracks/gone_20250101/)*

- [x] old_20260101: the old work
- [!] A list (list_20260401)
"""


def test_marks():
    """An entry has a box, a description and a place; it is of the track it links to or names."""
    assert {
        "auth_20260301": TrackMark("~", "Log in with tokens", 0),
        "find_20260302": TrackMark(" ", "Search", 1),
        "old_20260101": TrackMark("x", "old_20260101: the old work", 3),
        "list_20260401": TrackMark("!", "A list (list_20260401)", 4),
    } == read_marks(TEXT, IDS)


@given(st.text(st.sampled_from("-#*[]() x~!/\n`abtracks"), max_size=300))
def test_any_text_is_read(text):
    """No text makes the reader fail, and only known tracks are found."""
    assert read_marks(text, {"a", "b"}).keys() <= {"a", "b"}
