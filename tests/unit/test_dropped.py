"""What a compaction dropped: the comparison of a session's open items with the client's summary."""

import pytest

from handoffd.hooks import brief
from handoffd.hooks.brief import BRIEF_MAX_BYTES, BriefContext
from handoffd.session.dropped import unsettled
from handoffd.session.state import DROPPED_MAX, Dropped, Receipt, Value, decode, encode
from scripted_session import Told

LEAD = "This session is being continued from a previous conversation.\n\nSummary:\n"
RULE = "Never store amounts as floats, because accounting insists on cents."
RED = "1 failed, 40 passed in 0.31s\nFAILED tests/test_tax.py::test_half_cents - assert 1 == 2"


def working() -> Told:
    """Return a session with a rule, two todos, a red test and a command that failed twice."""
    told = Told().prompt(f"Round the tax of every invoice line. {RULE}")
    told.edit("tax.py")
    steps = ("Convert the shipping fees as well", "Document the rounding in the handbook")
    call = told.use("TodoWrite", todos=[{"content": text, "status": "pending"} for text in steps])
    told.result(call)
    told.run("pytest tests/test_tax.py", RED, code=1)
    for _ in range(2):
        told.run("terraform apply staging", "Error: no credentials for the bucket", code=1)
    return told


def compact(told: Told, summary: str) -> Told:
    told.record("system", subtype="compact_boundary", compactMetadata={"trigger": "auto"})
    return told.prompt(LEAD + summary, isCompactSummary=True)


def listed(told: Told) -> list[tuple[str, str]]:
    return [(item.kind, item.value.text) for item in unsettled(told.folded())]


SUMMARY = (
    "1. Primary Request and Intent:\n   Round the tax of every invoice line.\n"
    "7. Pending Tasks:\n   - Write down in the handbook how rounding is done\n"
)


def test_what_the_summary_lacks_is_listed():
    """A rule, an open item, a red test and a failed command that it lacks are listed in order."""
    assert [
        ("rule", RULE),
        ("open", "Convert the shipping fees as well"),
        (
            "red",
            "pytest tests/test_tax.py: red, 1 failed, 40 passed (tests/test_tax.py::test_half_cents)",
        ),
        ("failed", "terraform apply staging failed 2 times: Error: no credentials for the bucket"),
    ] == listed(compact(working(), SUMMARY))


@pytest.mark.parametrize(
    ("mention", "kind"),
    [
        ("Amounts are stored in cents and never in floating point.", "rule"),
        ("Fees for shipping are to be converted later.", "open"),
        ("tests/test_tax.py is red: test_half_cents failed.", "red"),
        ("`terraform apply` for staging lacks credentials of its bucket.", "failed"),
    ],
)
def test_another_wording_is_a_mention(mention, kind):
    """An item is not listed if half of its words occur together, in any order and form."""
    found = listed(compact(working(), f"{SUMMARY}8. Current Work:\n   {mention}\n"))

    assert kind not in [name for name, _ in found]
    assert 3 == len(found)


def test_words_far_apart_are_no_mention():
    """Words that occur all over a summary, each about something else, mention no item."""
    far = "\n".join(f"   {word} is elsewhere.\n   a\n   b\n   c" for word in RULE.split())

    assert ("rule", RULE) in listed(compact(working(), SUMMARY + far))


def test_other_scripts_are_compared_by_characters():
    """In a script without spaces, an item that the summary repeats in part is mentioned."""
    told = Told().prompt("请修复税务计算模块。绝不能使用浮点数存储金额")
    lacking = compact(Told().prompt("请修复税务计算模块。绝不能使用浮点数存储金额"), "修复模块")

    assert [] == listed(compact(told, "修复税务计算模块,金额存储不能使用浮点数"))
    assert listed(lacking)


def test_the_clients_own_list_replaces_its_older_one():
    """A pending item of one summary that the next summary lacks counts as done, not as dropped."""
    told = compact(Told().prompt("Move all invoices to the new store").edit("a.py"), SUMMARY)
    told.say("The handbook has a chapter on rounding now.")

    assert [] == listed(compact(told, "7. Pending Tasks:\n   - Move all invoices to the store\n"))


def test_an_experiment_is_not_listed():
    """A long command that failed once, and a test's failure as a command, are not listed."""
    told = Told().prompt("Round the tax of every invoice line").edit("tax.py")
    told.run("find / -name 'tariff*' | xargs -n1 head -3 | sort -u", "head: cannot open", code=1)
    told.run("pytest tests/test_tax.py", RED, code=1)

    assert ["red"] == [kind for kind, _ in listed(compact(told, "Round the tax of invoice lines."))]


def test_settled_items_leave_the_list():
    """A test that passes and a command that succeeds after the compaction leave the list."""
    told = compact(working(), SUMMARY)
    told.run("pytest tests/test_tax.py", "41 passed in 0.30s")
    told.run("terraform apply staging", "Apply complete!")

    assert ["rule", "open"] == [kind for kind, _ in listed(told)]


@pytest.mark.parametrize("heard", [Told.say, Told.prompt])
def test_a_mention_takes_an_item_off_the_list(heard):
    """An item that a later request or answer mentions is known again."""
    told = compact(working(), SUMMARY)
    heard(told, "The shipping fees are to be converted, too.")

    assert "open" not in [kind for kind, _ in listed(told)]


def test_the_next_compaction_replaces_the_list():
    """Only the last summary counts."""
    told = compact(compact(working(), SUMMARY), SUMMARY + RULE)

    assert "rule" not in [kind for kind, _ in listed(told)]


def test_new_work_clears_the_list():
    """Another piece of work clears the list."""
    told = compact(working(), SUMMARY)
    told.prompt("Forget the tax. Draw a new logo for the start page instead.")

    assert [] == told.folded().dropped


def test_the_list_is_short_and_stored():
    """At most six items are kept, each with its receipt, and survive a restart."""
    told = Told().prompt("Round the tax of every invoice line")
    words = ("amounts", "colours", "secrets", "branches", "licences", "pictures", "mirrors", "x y")
    for word in words:
        told.prompt(f"Never touch {word} by yourself")
    state = compact(told, "Nothing much.").folded()

    assert DROPPED_MAX == len(state.dropped)
    assert state.dropped == decode(encode(state)).dropped
    assert all(item.value.receipt.uuid for item in state.dropped)


# The brief


def item(kind: str, text: str) -> Dropped:
    return Dropped(kind, Value(text, Receipt("", "u1", 0, "2026-03-01T09:00:00.000Z", "quoted")))


def test_the_brief_lists_them_first_and_once():
    """The items come before the goal, and do not stand in the lists below."""
    document = {
        "goal": "Round tax per line",
        "now": "Editing tax.py",
        "next": ["Convert the shipping fees", "Document the rounding"],
        "rules": ["Never store floats"],
    }
    lost = [item("rule", "Never store floats"), item("open", "Convert the shipping fees")]
    lines = brief.render(document, "/p", context=BriefContext(dropped=lost)).splitlines()
    at = lines.index("**Not in the summary:**")

    assert [
        "- rule: Never store floats",
        "- open: Convert the shipping fees",
        "**Goal:** Round tax per line",
        "**Now:** Editing tax.py",
        "**Next:**",
        "- Document the rounding",
        "</handoffd-context>",
    ] == lines[at + 1 :]


def test_many_long_items_fit_into_the_brief():
    """The brief stays within 2 KB with many long items."""
    lost = [item("open", f"{number} {'word ' * 60}") for number in range(DROPPED_MAX)]
    text = brief.render({"goal": "Round tax per line"}, "/p", context=BriefContext(dropped=lost))

    assert len(text.encode()) <= BRIEF_MAX_BYTES
    assert "**Not in the summary:**" in text
