"""The mention of unread thread entries in a new session's brief."""

import pytest

from handoffd.hooks import brief
from handoffd.hooks.brief import BriefContext

NOTHING = {"goal": "(not stated yet)", "now": "(not stated yet)"}
MENTION = "**Unread entries in threads used here:** "


def thread_id(number: int) -> str:
    return f"hof_{number:021d}"


def test_a_mention_alone_is_a_brief():
    """Without other facts about a project the brief is its threads' mention, inside our mark."""
    text = brief.render(
        NOTHING, "/p", context=BriefContext(unread=[(thread_id(1), 2), (thread_id(2), 1)])
    )

    assert text.startswith('<handoffd-context project="/p" ')
    assert text.endswith("</handoffd-context>\n")
    named = f"{thread_id(1)} (2), {thread_id(2)} (1)"
    assert f"\n{MENTION}{named}. get_handoff shows them.\n" in text
    assert "Current Session State" not in text
    assert text == brief.render(
        {}, "/p", context=BriefContext(unread=[(thread_id(1), 2), (thread_id(2), 1)])
    )


def test_nothing_unread_is_not_mentioned():
    """Without unread entries the brief is unchanged."""
    document = {"goal": "g", "now": "n"}

    assert brief.render(document, "/p") == brief.render(document, "/p", context=BriefContext())
    assert MENTION not in brief.render(document, "/p")
    assert "" == brief.render(NOTHING, "/p", context=BriefContext())


def test_five_are_named():
    """Five threads are named, and the others are counted."""
    five = [(thread_id(number), number) for number in range(1, 6)]

    assert f"{thread_id(5)} (5). get" in brief.render({}, "/p", context=BriefContext(unread=five))
    text = brief.render(
        {}, "/p", context=BriefContext(unread=[*five, (thread_id(6), 6), (thread_id(7), 7)])
    )
    assert f"{thread_id(5)} (5) and 2 more. get" in text
    assert thread_id(6) not in text


@pytest.mark.parametrize("level", brief.LEVELS)
def test_the_mention_survives_the_limit(level):
    """The mention stays whole in a brief of at most 2 KB, however much else there is."""
    document = {
        "goal": "ü" * 5000,
        "now": "n" * 5000,
        "timestamp": "🦊" * 500,
        "files": [f"f{n}" * 50 for n in range(99)],
        "next": ["x" * 500] * 50,
    }
    unread = [("i" * 80, 1_000_000)] * 99
    text = brief.render(document, "/🦊" * 200, level, BriefContext(["other " * 100], unread))

    assert len(text.encode()) <= 2048
    assert f"{', '.join(['i' * 80 + ' (1000000)'] * 5)} and 94 more. get_handoff" in text
    assert text.endswith("</handoffd-context>\n")


@pytest.mark.parametrize("level", brief.LEVELS)
def test_a_mention_is_made_anew(level):
    """A new mention, or none, replaces the old one, and nothing else changes."""
    document = {"goal": "g", "now": "n", "timestamp": "t", "files": ["a", "b"], "next": ["x"]}
    one, two = [(thread_id(1), 1)], [(thread_id(1), 2), (thread_id(2), 1)]

    def rendered(found, unread):
        return brief.render(found, "/p", level, BriefContext(["session 1: here"], unread))

    for old in ([], one, two):
        for new in ([], one, two):
            made = brief.mention_anew(rendered(document, old), "/p", new)
            assert rendered(document, new) == made
            alone = brief.mention_anew(rendered({}, old), "/p", new)
            assert rendered({}, new) == alone


def test_a_mention_made_anew_keeps_to_the_limit():
    """In a full brief the last lines make room for the mention."""
    document = {"goal": "g", "now": "n", "next": ["x" * 300] * 50}
    full = brief.render(document, "/p")
    assert len(full.encode()) <= 2048
    text = brief.mention_anew(full, "/p", [("i" * 80, 1_000_000)] * 99)

    assert len(text.encode()) <= 2048
    assert "and 94 more. get_handoff" in text
    assert "**Goal:** g\n" in text
    assert text.endswith("</handoffd-context>\n")


@pytest.mark.parametrize("elsewhere", [[], ["package api, session 1a2b3c4d, live: Translate"]])
def test_a_brief_without_a_state_is_recognised(elsewhere):
    """A brief of only mentions or work elsewhere is recognised, to be removed when they end."""
    context = BriefContext(unread=[(thread_id(1), 1)], elsewhere=elsewhere)

    assert brief.is_without_state(brief.render({}, "/p", context=context))
    assert not brief.is_without_state(brief.render({"goal": "g"}, "/p", context=context))
    assert not brief.is_without_state(brief.render({"goal": "g"}, "/p"))
    assert not brief.is_without_state("")


def test_work_elsewhere_was_left_by_nobody_here():
    """Without a state of its own, a brief says that the work is elsewhere, and keeps it."""
    context = BriefContext(elsewhere=["package api, session 1a2b3c4d, live: Translate"])
    text = brief.render({}, "/p", context=context)

    assert "\n## Work elsewhere\n\n**Elsewhere:** package api, session 1a2b3c4d" in text
    assert "Left by" not in text
    anew = brief.mention_anew(text, "/p", [(thread_id(1), 1)])
    assert thread_id(1) in anew
    assert text == brief.mention_anew(anew, "/p", [])
