"""The progress of a track: check boxes of a plan, or the children of an epic."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handoffd.tracks.plan import Progress, TrackPlan, progress, read_plan

PLAN = """# Plan: auth

Mark a task with [x] when it is done, and [ ] before.

## Phase 1: Keys
- [x] Make keys
* [X] Rotate keys
- [-] Print keys

## Phase 2: Tokens
### Signing
1. [x] Choose a library
   - [~] Sign **tokens**
2) [!] Revoke them: no Redis
+ [ ] Refresh
- [ ]
- [link](x) - [y] z
- [?] what

```
- [ ] not a task
```

## Phase 3: Finish
- [ ] Write it up
"""


def test_plan():
    """Only list items count, with any bullet; prose, code and dropped items do not."""
    assert TrackPlan(
        Progress(3, 8, "plan"),
        "Phase 2: Tokens",
        ("Sign **tokens**",),
        ("Refresh", "", "Write it up"),
        ("Revoke them: no Redis",),
        frozenset({(3, 8), (3, 7), (2, 7)}),
    ) == read_plan(PLAN)


def test_percent_is_cut():
    """Percentages are rounded down (5 of 12 is 41), and 0 of 0 is none."""
    assert 41 == Progress(5, 12).percent
    assert 0 == Progress().percent


@pytest.mark.parametrize("text", ["", "# Plan\n\nNothing [x] here.\n", "- [-] dropped"])
def test_no_tasks(text):
    """A plan without tasks gives no progress."""
    assert TrackPlan(Progress(), "", (), (), (), frozenset({(0, 0)})) == read_plan(text)


def test_all_done():
    """If all tasks are done there is no current phase."""
    done = TrackPlan(Progress(1, 1, "plan"), "", (), (), (), frozenset({(1, 1)}))
    assert done == read_plan("## Phase 1\n- [x] a\r\n")


@pytest.mark.parametrize(
    ("text", "phase"),
    [
        ("- [ ] a", ""),
        ("# Plan\n- [ ] a", "Plan"),
        ("# Phase 1\n## Tests ##\n- [ ] a", "Phase 1"),
        ("# Phase 1\n# Tests\n- [ ] a", "Tests"),
        ("# Plan\n## **Phase 1**\n- [x] b\n## Later\n- [ ] a", "Later"),
    ],
)
def test_phase(text, phase):
    """The phase is the heading named so above the first open task, or else the nearest heading."""
    assert phase == read_plan(text).phase


def test_texts_are_bounded_and_clean():
    """A task is one short line without secrets and control characters."""
    secret = "ghp_" + "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF3hI6"
    found = read_plan(f"- [ ] use {secret} \x1b[31mnow\n- [ ] {'word ' * 500}")

    assert secret not in found.open[0]
    assert "\x1b" not in found.open[0]
    assert 200 >= len(found.open[1])


@given(st.text(st.sampled_from("-*1.[] xX~!#`\n\r\tab"), max_size=200))
def test_any_text_is_read(text):
    """No text makes the reader fail, and the done tasks never exceed all tasks."""
    found = read_plan(text).progress

    assert 0 <= found.done <= found.total
    assert (found.total > 0) == (found.source == "plan")


# Progress


@pytest.mark.parametrize(
    ("children", "expected"),
    [
        (["closed"] * 5 + ["open"] * 7, Progress(5, 12, "beads", "the plan says 3/8")),
        (["closed", "tombstone", "in_progress"], Progress(1, 2, "beads", "the plan says 3/8")),
        (["closed"] * 3 + ["open"] * 5, Progress(3, 8, "beads")),
        (["closed"] * 3 + ["open"] * 4, Progress(3, 7, "beads")),
        (["closed"] * 2 + ["open"] * 5, Progress(2, 7, "beads")),
        (["tombstone"], Progress(3, 8, "plan")),
        ([], Progress(3, 8, "plan")),
        (None, Progress(3, 8, "plan")),
    ],
)
def test_progress(children, expected):
    """The tasks in Beads give the progress, if there are any; else the plan does.

    A plan that counts its outer or its innermost boxes so does not disagree.
    """
    assert expected == progress(read_plan(PLAN), children)


def test_progress_of_nothing():
    """Without children and without a plan there is no progress."""
    assert Progress() == progress(None, None) == progress(read_plan(""), [])
