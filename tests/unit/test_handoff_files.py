"""Writing a session's handoff: kills between the steps, edits in between, other writers."""

import os
from dataclasses import replace

import pytest

from handoffd.contract import handoff_directory, session_file
from handoffd.contract.contract_format import Contract, ForeignLines
from handoffd.contract.contract_writer import intended_row, stored_row
from handoffd.contract.session_file import HandoffAuthor
from handoffd.session.state import SessionState

SESSION = "3f78c1d2-0000-4000-8000-000000000000"
HOURS = [f"2026-03-01T{hour:02d}:00:00.000Z" for hour in range(24)]


def composing(*done, **more):
    """Return a function that composes a handoff with the given done items."""
    sections = {"Done": [f"- {text}" for text in done]} if done else {}
    ours = Contract("2026-03-01", SESSION, "Round tax", "/home/ann/shop", sections=sections)
    return lambda _since: replace(ours, **more)


class Shop:
    """A handoff directory, and the stored state of the session's handoff."""

    def __init__(self, base):
        self.base = str(base)
        self.stored = None

    def worker(self, hour):
        return HandoffAuthor(SESSION, "/home/ann/shop", HOURS[0], HOURS[hour], HOURS[hour])

    def plan(self, hour, compose):
        planned = session_file.plan(self.base, self.worker(hour), compose, self.stored)
        before = self.stored
        if planned is not None:
            self.stored = intended_row("p", self.state(hour), planned, before)
        return planned, before

    def write(self, hour, planned, before):
        done = session_file.write(self.base, self.worker(hour), planned, before)
        if done is not None:
            self.stored = stored_row("p", self.state(hour), done, ended=False)
        return done

    def save(self, hour, compose):
        planned, before = self.plan(hour, compose)
        return self.write(hour, planned, before) if planned else None

    def state(self, hour):
        return SessionState(SESSION, cwd="/home/ann/shop", last_time=HOURS[hour])

    @property
    def directory(self):
        return handoff_directory.directory_of(self.base, "/home/ann/shop")

    @property
    def files(self):
        return sorted(name for name in os.listdir(self.directory) if name.endswith(".md"))

    def text(self, name=f"{SESSION[:8]}.md"):
        with open(f"{self.directory}/{name}") as stream:
            return stream.read()

    def edit(self, change, hour, name=f"{SESSION[:8]}.md"):
        """Change the file as a person would, at the given hour."""
        new = change(self.text(name))
        with open(f"{self.directory}/{name}", "w") as stream:
            stream.write(new)
        seconds = session_file.clock.parse(HOURS[hour])
        os.utime(f"{self.directory}/{name}", (seconds, seconds))


@pytest.fixture
def shop(tmp_path):
    return Shop(tmp_path / "handoffs")


def test_killed_before_the_file(shop):
    """After a kill between the intention and the file, the next attempt writes the file."""
    shop.plan(1, composing("one"))
    assert shop.save(1, composing("one")) is not None

    assert "- one" in shop.text()


def test_killed_after_the_file(shop):
    """After a kill between the file and its entry, our own lines are not taken for a person's."""
    shop.save(1, composing("one"))
    planned, before = shop.plan(2, composing("one and a half"))
    session_file.write(shop.base, shop.worker(2), planned, before)
    shop.save(3, composing("two"))

    assert "- two" in shop.text()
    assert "- one" not in shop.text()
    assert "based_on" not in shop.text()
    assert [f"{SESSION[:8]}.md"] == shop.files


def test_first_write_killed_after_the_file(shop):
    """The same holds for the first file of a session."""
    planned, before = shop.plan(1, composing("one"))
    session_file.write(shop.base, shop.worker(1), planned, before)
    shop.save(2, composing("two"))

    assert [f"{SESSION[:8]}.md"] == shop.files
    assert "- two" in shop.text()
    assert "- one" not in shop.text()


def test_intention_that_was_never_written_takes_nothing_out(shop):
    """A planned line that was never written does not count as removed by a person."""
    shop.save(1, composing("one"))
    shop.plan(2, composing("one", "late"))
    shop.save(3, composing("one", "late"))

    assert "- late" in shop.text()


def test_person_between_plan_and_file(shop):
    """A person's change between our plan and our write is kept."""
    shop.save(1, composing("one"))
    planned, before = shop.plan(5, composing("two"))
    shop.edit(lambda text: text + "\n## Notes\nmine\n", 4)
    shop.write(5, planned, before)

    assert "## Notes\nmine\n" in shop.text()
    assert "- two" in shop.text()


def test_persons_hand_stands_until_work(shop):
    """Without work since, a file that a person edited is left unchanged."""
    shop.save(1, composing("one"))
    shop.edit(lambda text: text.replace("- one", "- one\n- mine"), 5)
    before = shop.text()
    shop.save(4, composing("two"))

    assert before == shop.text()


def test_line_that_was_taken_out_stays_out(shop):
    """A line of ours that a person deleted does not come back."""
    shop.save(1, composing("one", "wrong"))
    shop.edit(lambda text: text.replace("- wrong\n", ""), 2)
    shop.save(3, composing("one", "wrong", "three"))
    shop.save(4, composing("one", "wrong", "three", "four"))

    assert "- four" in shop.text()
    assert "wrong" not in shop.text()


def test_deleted_file_comes_back_only_with_work(shop):
    """A handoff that a person deleted is written again only after more work."""
    shop.save(2, composing("one"))
    os.unlink(f"{shop.directory}/{SESSION[:8]}.md")
    assert shop.save(2, composing("one")) is None
    assert [] == shop.files
    shop.save(3, composing("two"))

    assert "- two" in shop.text()


def test_file_written_anew_by_somebody_else(shop):
    """A file without a line of ours is left alone; later work goes into a file based on it."""
    shop.save(1, composing("one"))
    words = f"# Handoff — 2026-03-01\n\nsession_id: {SESSION}\npurpose: by hand\n\n## Done\n- x\n"
    shop.edit(lambda _: words, 3)
    assert shop.save(2, composing("two")) is None
    shop.save(4, composing("four"))
    shop.save(5, composing("five"))

    assert words == shop.text()
    other = next(name for name in shop.files if name != f"{SESSION[:8]}.md")
    assert SESSION[:12] == other.removesuffix(".md")
    assert "- five" in shop.text(other)
    assert "- four" not in shop.text(other)
    assert f"based_on: {SESSION[:8]}.md" in shop.text(other)


def test_first_eight_characters_taken(shop):
    """Another session with the same first eight characters gets a longer name; both files stay."""
    os.makedirs(shop.directory)
    with open(f"{shop.directory}/{SESSION[:8]}.md", "w") as stream:
        stream.write("# Handoff — 2026-03-01\n\nsession_id: another\n")
    shop.save(1, composing("one"))

    assert [f"{SESSION[:12]}.md", f"{SESSION[:8]}.md"] == shop.files
    assert "another" in shop.text()


def test_time_is_that_of_the_work(shop):
    """The file's time is that of the session's last record, so a late write hides no other file."""
    shop.save(7, composing("one"))

    assert (
        session_file.clock.parse(HOURS[7]) == os.stat(f"{shop.directory}/{SESSION[:8]}.md").st_mtime
    )


def test_session_that_moved(shop, tmp_path):
    """A session that moved to another directory writes its handoff there."""
    shop.save(1, composing("one"))
    moved = HandoffAuthor(SESSION, "/home/ann/tree", HOURS[0], HOURS[2], HOURS[2])
    planned = session_file.plan(shop.base, moved, composing("two"), shop.stored)

    assert handoff_directory.directory_of(shop.base, "/home/ann/tree") == os.path.dirname(
        planned.path
    )


def test_persons_call_survives_and_ours_goes(shop):
    """A person's call for review stays; our own call goes when its reason is gone."""
    shop.save(1, composing("one", escalations=("the session ended on a question",)))
    shop.edit(lambda text: text.replace("## Done", "HUMAN REVIEW NEEDED: mine\n\n## Done"), 2)
    shop.save(3, composing("two"))

    assert "HUMAN REVIEW NEEDED: mine" in shop.text()
    assert "ended on a question" not in shop.text()


def test_close_completes_what_another_program_wrote(shop):
    """close adds to the handoff that /close wrote for the session, and keeps its every line."""
    os.makedirs(shop.directory)
    words = (
        f"# Handoff — 2026-03-01\n\nsession_id: {SESSION}\npurpose: by hand\nsource: amp\n\n"
        "## Done\n- x\n\n## Commands\n```sh\nmake\n```\n"
    )
    with open(f"{shop.directory}/own.md", "w") as stream:
        stream.write(words)
    given = ForeignLines(sections={"Next": ["- mine"]})
    mine = shop.worker(1)
    planned = session_file.plan_close(shop.base, mine, composing("known"), None, given)
    session_file.close(shop.base, mine, planned, None)

    assert ["own.md"] == shop.files
    found = shop.text("own.md")
    assert "source: amp\n" in found
    assert "purpose: by hand\n" in found
    assert "## Done\n- x\n- known\n" in found
    assert "## Next\n- mine\n" in found
    assert "## Commands\n```sh\nmake\n```\n" in found


def test_handoff_that_names_no_session_is_not_shadowed(shop):
    """A person's handoff from the time of the session stands, even without a session id."""
    shop.save(2, composing("one"))
    with open(f"{shop.directory}/ann.md", "w") as stream:
        stream.write("# Handoff — 2026-03-01\n\nsession_id:\n\n## Done\n- by Ann\n")
    seconds = session_file.clock.parse(HOURS[4])
    os.utime(f"{shop.directory}/ann.md", (seconds, seconds))
    chatted = replace(shop.worker(5), worked_time=HOURS[2])

    assert session_file.plan(shop.base, chatted, composing("two"), shop.stored) is None
    shop.save(6, composing("six"))
    assert "based_on: ann.md" in shop.text()


def test_handoff_from_before_the_session_is_no_base(shop):
    """A handoff without a session id from before the session is not a base for it."""
    os.makedirs(shop.directory)
    with open(f"{shop.directory}/old.md", "w") as stream:
        stream.write("# Handoff — 2025-01-01\n\n## Done\n- long ago\n")
    os.utime(f"{shop.directory}/old.md", (1, 1))
    shop.save(1, composing("one"))

    assert "based_on" not in shop.text()


def test_words_stand_while_only_talk_follows(shop):
    """After a person's words and more talk, new work updates our lines and removes old ones."""
    mine = shop.worker(1)
    given = ForeignLines(sections={"Next": ["- mine"]})
    planned = session_file.plan_close(shop.base, mine, composing("old"), None, given)
    done = session_file.close(shop.base, mine, planned, None)
    shop.stored = replace(stored_row("p", shop.state(1), done, ended=False), persons_time=HOURS[2])
    os.utime(done.handoff.path, (session_file.clock.parse(HOURS[2]),) * 2)
    talked = replace(shop.worker(3), worked_time=HOURS[1])
    planned = session_file.plan(shop.base, talked, composing("chatted"), shop.stored)
    assert session_file.write(shop.base, talked, planned, shop.stored) is None
    shop.stored = intended_row("p", shop.state(3), planned, shop.stored)
    shop.save(4, composing("new"))

    assert "- mine" in shop.text()
    assert "- new" in shop.text()
    assert "- old" not in shop.text()
    assert "- chatted" not in shop.text()


def close(shop, hour, compose, given):
    mine = shop.worker(hour)
    planned = session_file.plan_close(shop.base, mine, compose, shop.stored, given)
    before = shop.stored
    shop.stored = intended_row("p", shop.state(hour), planned, before)
    done = session_file.close(shop.base, mine, planned, before)
    shop.stored = stored_row("p", shop.state(hour), done, ended=False)
    return done


def test_close_keeps_a_call(shop):
    """An existing call for a person stays if a person adds a line with close."""
    shop.save(1, composing("one", escalations=("a person has yet to answer: why?",)))
    close(shop, 1, composing("one"), ForeignLines(sections={"Next": ["- mine"]}))

    assert "HUMAN REVIEW NEEDED: a person has yet to answer: why?" in shop.text()


def test_close_keeps_what_it_is_based_on(shop):
    """A handoff that is based on another one stays so if a person adds a line with close."""
    os.makedirs(shop.directory)
    with open(f"{shop.directory}/ann.md", "w") as stream:
        stream.write(f"# Handoff — 2026-03-01\n\nsession_id: {SESSION}\n\n## Next\n- rotate\n")
    os.utime(f"{shop.directory}/ann.md", (session_file.clock.parse(HOURS[1]),) * 2)
    shop.save(2, composing("two"))
    close(shop, 2, composing("two"), ForeignLines(sections={"Next": ["- mine"]}))

    assert "based_on: ann.md" in shop.text()
    assert "rotate (from ann.md)" in shop.text()


def test_line_that_both_say_is_the_persons(shop):
    """A line that a person wrote, too, stays after we stop writing it."""
    shop.save(1, composing("same"))
    done = close(shop, 1, composing("same"), ForeignLines(sections={"Done": ["- same"]}))
    os.utime(done.handoff.path, (session_file.clock.parse(HOURS[2]),) * 2)
    stamp = handoff_directory.read(done.handoff.path).stamp
    shop.stored = replace(shop.stored, persons_time=HOURS[2], stamp=stamp)
    shop.save(3, composing("other"))

    assert "- same" in shop.text()
    assert "- other" in shop.text()


def test_unspeakable_names_are_passed_over(shop):
    """A file whose name does not fit in a line is no handoff, and causes no error."""
    os.makedirs(shop.directory)
    for name in (b"\xff.md", b"a\nb.md"):
        with open(os.fsencode(shop.directory) + b"/" + name, "w") as stream:
            stream.write(f"# Handoff — 2026-03-01\n\nsession_id: {SESSION}\n")
    shop.save(1, composing("one"))

    place = handoff_directory.HandoffScope("/home/ann/shop", "/home/ann/shop")
    assert [f"{SESSION[:8]}.md"] == [
        os.path.basename(found.path) for found in handoff_directory.handoffs(shop.base, place)
    ]
