"""A project's own settings, found in a markdown file, with defaults for bad values."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handoffd.redaction.redact import compile_patterns
from handoffd.tracks.settings import TrackSettings, read_settings

WORKFLOW = """# Workflow

```bash
handoff: {quiet: true}
```

```yaml
validation: [design, spec
other: *missing
```

## Handoffs

```yaml
# Ours
review:
  handoff: {idle_threshold_minutes: 1}
handoff:
  quiet: false
  idle_threshold_minutes: 45
# a comment
  idle_prompt_enabled: true
  auto_triggers: {design-end: true, epic-start: false, epic-end: true, pre-finish: true}
  secrets_patterns: ['MY_CUSTOM_TOKEN_[A-Z0-9]{32}', "X-[0-9]{8}"]
  resume: {stale_threshold_days: 3.5, auto_select_single: false, show_drift_analysis: no}
after: ]broken
```
"""


def block(inner):
    lines = "\n".join(f"  {line}" for line in inner.split("\n"))
    return f"```yaml\nhandoff:\n{lines}\n```\n"


def test_settings():
    """The block is found among other fences and broken YAML, and read."""
    assert TrackSettings(
        idle_minutes=45,
        off=frozenset({"epic-start"}),
        secrets_patterns={"own-1": "MY_CUSTOM_TOKEN_[A-Z0-9]{32}", "own-2": "X-[0-9]{8}"},
        stale_days=3.5,
        auto_select_single=False,
        show_drift=False,
    ) == read_settings(WORKFLOW)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# Workflow\n\nThe handoff: it is good.\nhandoff: see below.\n",
        "```yaml\nother: 1\n```",
        block(""),
        block("quiet: true"),
        block("idle_threshold_minutes:\nresume:\nsecrets_patterns: ~\nauto_triggers: null"),
    ],
)
def test_defaults(text):
    """Without settings the defaults hold, and that is no problem."""
    assert TrackSettings() == read_settings(text)


@pytest.mark.parametrize(
    "text",
    [
        "# A\n\nhandoff:\n  idle_threshold_minutes: 5\n\n# B\nidle: [",
        "---\nhandoff:\n  idle_threshold_minutes: 5\n---\n\nWords: [here\n",
        "handoff: {idle_threshold_minutes: 5}\r\nmore",
        "~~~yml title=x\nhandoff: {\n  idle_threshold_minutes: 5\n}\n~~~",
        "- in a list\n\n  ```yaml\n  handoff:\n    idle_threshold_minutes: '5'\n  ```\n",
        "```\nhandoff:\n\n  idle_threshold_minutes: 5",
        "```yaml\nhandoff: no\n```\n```yaml\nhandoff:\n  idle_threshold_minutes: 5\n```",
    ],
)
def test_where_the_block_may_stand(text):
    """The block may be in any fence, in the front matter, or free; the first mapping counts."""
    assert TrackSettings(idle_minutes=5) == read_settings(text)


@pytest.mark.parametrize(
    ("said", "off"),
    [
        ("{epic-start: false, epic-end: off, idle: no}", {"epic-start", "epic-end", "idle"}),
        ("[design-end, epic-end, pre-finish]", {"epic-start"}),
        ("[design-end, epic-start, epic-end, pre-finish]", set()),
        ("{manual: false}", set()),
        ("{idle: false}", {"idle"}),
    ],
)
def test_triggers_that_are_off(said, off):
    """Triggers are turned off by name, or by leaving them out of a list."""
    assert TrackSettings(off=frozenset(off)) == read_settings(block(f"auto_triggers: {said}"))


@pytest.mark.parametrize("said", ["{design-end: false, pre-finish: no}", "[epic-start, epic-end]"])
def test_what_cannot_be_off(said):
    """design-end and pre-finish stay on, with a message."""
    found = read_settings(block(f"auto_triggers: {said}"))

    assert frozenset() == found.off
    assert "design-end cannot be off; pre-finish cannot be off" == found.problem


def test_no_word_on_idling():
    """Without the idle prompt the idle trigger is off; a threshold of 0 means never."""
    assert frozenset({"idle"}) == read_settings(block("idle_prompt_enabled: false")).off
    assert 0 == read_settings(block("idle_threshold_minutes: 0")).idle_minutes


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ("idle_threshold_minutes: -1", "idle_threshold_minutes must be a number from 0 to 1439"),
        ("idle_threshold_minutes: 10081", "idle_threshold_minutes must be a number"),
        ("idle_threshold_minutes: nan", "idle_threshold_minutes must be a number"),
        ("idle_threshold_minutes: [3]", "idle_threshold_minutes must be a number"),
        ("idle_prompt_enabled: perhaps", "idle_prompt_enabled must be true or false"),
        ("resume: 3", "resume must be a mapping"),
        ("resume: {stale_threshold_days: soon}", "resume.stale_threshold_days must be a number"),
        ("resume: {auto_select_single: {}}", "resume.auto_select_single must be true or false"),
        ("auto_triggers: 3", "auto_triggers must be a mapping"),
        ("auto_triggers: {epic-start: 3}", "auto_triggers.epic-start must be true or false"),
        ("auto_triggers: {lunch: false}", "'lunch' is no trigger"),
        ("auto_triggers: [[epic-start]]", "auto_triggers must be a list of names"),
        ("secrets_patterns: x", "secrets_patterns must be a list"),
        ("secrets_patterns: [[x]]", "own-1 must be a text"),
        ("secrets_patterns: ['(a+)+']", "own-1 may hold no groups"),
        ("secrets_patterns: ['(']", "own-1 may hold no groups"),
        ("secrets_patterns: ['a*']", "it matches the empty text"),
        ("a: *b", "the handoff: block cannot be read: aliases are not accepted"),
        ("a: [", "the handoff: block cannot be read: it is not valid YAML"),
        ("- a", "the handoff: block is no mapping"),
        ("no", "the handoff: block is no mapping"),
    ],
)
def test_problems(said, problem):
    """An unfit value leaves the default, with a one-line message."""
    found = read_settings(block(said))

    assert problem in found.problem
    assert TrackSettings(problem=found.problem) == found
    assert "\n" not in found.problem


def test_one_bad_pattern_does_not_spoil_the_others():
    """Patterns are named by their position, so that a problem identifies one of them."""
    found = read_settings(block("secrets_patterns: ['A[0-9]', '(', 'B[0-9]']"))

    assert {"own-1": "A[0-9]", "own-3": "B[0-9]"} == found.secrets_patterns
    assert 2 == len(compile_patterns(found.secrets_patterns))


@given(
    st.one_of(
        st.text(max_size=200),
        st.text(st.sampled_from("handof:-[]{}'\"&*! \n\t#`~x1"), max_size=100).map(block),
    )
)
def test_any_text_is_read(text):
    """No text makes the reader fail, and the mandatory triggers are never off."""
    found = read_settings(text)

    assert not found.off & {"design-end", "pre-finish", "manual"}
    assert found.idle_minutes is None or 0 <= found.idle_minutes <= 1439
    assert "\n" not in found.problem
