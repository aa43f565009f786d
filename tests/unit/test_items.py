"""Open items: their keys, the marks that close them, and the lines that a person deleted."""

import pytest

from handoffd.checkpoint.edits import deleted_lines, edited_values
from handoffd.contract.composition import Surroundings, account
from handoffd.projects.lanes import Lane, compose, park
from handoffd.session import insights
from handoffd.store.core import CoreStore
from handoffd.store.erasure import Forgotten
from handoffd.store.item_marks import ItemMark
from scripted_session import ROOT, Told


def working(*todos):
    told = Told().prompt("Add a page where customers can change their address").edit("page.py")
    if todos:
        told.use("TodoWrite", todos=[{"content": text, "status": "pending"} for text in todos])
    return told


def keys(state):
    return [item.key for item in insights.open_items(state)]


def viewed(state, closed):
    return compose(ROOT, [Lane(state, 0.0, closed=closed)], {}, None, [])


@pytest.fixture
def core(tmp_path):
    found = CoreStore(str(tmp_path / "core.db"))
    yield found
    found.close()


def mark(transcript="s", record="u", digest="d", state="done", at="2026-01-01T00:00:00.000Z"):
    return ItemMark(transcript, record, digest, state, "Write the tests", at)


def test_marks_are_of_one_project(core):
    """A mark is found by its project, and a later mark of the same item replaces it."""
    one, other = core.project_id("/a", "t"), core.project_id("/b", "t")
    core.item_marks.add(one, [mark(), mark(record="v")])
    core.item_marks.add(one, [mark(state="untrue", at="2026-01-02T00:00:00.000Z")])

    assert ["untrue", "done"] == [found.state for found in core.item_marks.of(one)]
    assert {("s", "u", "d"), ("s", "v", "d")} == core.item_marks.keys(one)
    assert [] == core.item_marks.of(other)


def test_marks_of_a_session_are_erased_with_it(core):
    """Forgetting a session erases its marks, also those of its task files, and no others."""
    project = core.project_id("/a", "t")
    marks = [mark(), mark("s/tasks"), mark("other")]
    core.item_marks.add(project, marks)

    core.forget(Forgotten(project, ["s"]), "2026-01-01T00:00:00.000Z")

    assert ["other"] == [found.transcript for found in core.item_marks.of(project)]


def test_the_shown_list(core):
    """The stamp of the list that was shown last is kept."""
    project = core.project_id("/a", "t")
    assert "" == core.item_marks.shown(project)
    core.item_marks.set_shown(project, "a")
    core.item_marks.set_shown(project, "b")
    assert "b" == core.item_marks.shown(project)


def test_an_activity_is_no_part_of_the_key():
    """A request that is worked on keeps its key while the activity that is shown changes."""
    told = working()
    before = insights.open_items(told.folded())
    told.edit("form.py")
    after = insights.open_items(told.folded())

    assert before[0].value.text != after[0].value.text
    assert [item.key for item in before] == [item.key for item in after]
    assert [] == insights.upcoming(told.folded(), [before[0].key])


def test_the_same_words_again_are_another_item():
    """A request that a person repeats after its mark is open again."""
    told = working("Run the slow tests of the address page")
    closed = keys(told.folded())
    told.say("The page is there.").prompt("Run the slow tests of the address page")

    assert ["Run the slow tests of the address page"] == [
        value.text for value in insights.upcoming(told.folded(), closed)
    ]


def test_closed_items_make_room():
    """Of a long todo list, a closed item makes room for the next one."""
    state = working("Write one", "Test two", "Draw three", "Send four").say("Begun.").folded()
    shown = insights.upcoming(state)

    left = insights.upcoming(state, keys(state)[:1])

    assert ["Test two", "Draw three", "Send four"] == [value.text for value in left][:3]
    assert "Send four" not in [value.text for value in shown]


def test_a_closed_item_hides_its_likeness():
    """What says the same as a closed item does not take its place."""
    told = working("Write the tests of the address form")
    told.say("The page is there.\n\nStill to do:\n- write the tests of the address form")
    state = told.folded()
    assert 1 == len(keys(state))

    assert [] == insights.upcoming(state, keys(state))


def test_status_and_questions_follow():
    """With its last question closed, an ended turn is completed, and no question is told."""
    state = working().say("I added the form. Should old addresses be kept?").folded()
    assert "blocked" == viewed(state, ()).document["status"]

    document = viewed(state, keys(state)).document

    assert "completed" == document["status"]
    assert "next" not in document
    assert not any("old addresses" in text for text in document.get("questions", []))
    told = account(state, ROOT, Surroundings("2026-03-01", closed=keys(state), ended=True))
    assert ([], ()) == (told.items("Next", 9), told.escalations)


def test_a_running_turn_is_not_completed():
    """While the session works, closed items do not complete the work."""
    state = working("Write the tests").folded()
    assert "in_progress" == viewed(state, keys(state)).document["status"]


def test_parked_items_have_no_number():
    """An item that is parked leaves the numbered list."""
    view = viewed(working("Write the tests").say("Begun.").folded(), ())
    assert len(view.document["next"]) == len(view.items) > 0
    park(view, "2027-01-01T00:00:00.000Z")
    assert [] == view.items


@pytest.mark.parametrize(
    ("found", "deleted", "edited"),
    [
        ({"next": ["a", "c"]}, ["b"], {}),
        ({"next": []}, ["a", "b", "c"], {}),
        ({"next": None}, ["a", "b", "c"], {}),
        ({"next": ["a", "x", "c"]}, ["b"], {"next": ["a", "x", "c"]}),
        ({"next": ["a", "b", "c"]}, [], {}),
        ({"next": ["x", "y"]}, [], {"next": ["x", "y"]}),
        ({"next": "a"}, [], {}),
        # Another program may not know the key.
        ({}, [], {}),
    ],
)
def test_deleted_lines(found, deleted, edited):
    """Deleted lines are dropped; only a list with a new line becomes a person's list."""
    ours = ({"next": ["a", "b", "c"]}, {"next": ["a", "b", "c"]})

    assert deleted == deleted_lines(found, ours)
    assert edited == edited_values(found, ours)


def test_lines_that_we_replaced_were_not_deleted():
    """A line that is missing because we wrote another list is no deletion."""
    ours = ({"next": ["a", "b"]}, {"next": ["b", "c"]})

    assert [] == deleted_lines({"next": ["b", "c"]}, ours)
    assert ["b"] == deleted_lines({"next": ["c"]}, ours)
