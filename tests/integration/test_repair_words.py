"""What `handoff repair` says, to somebody who knows nothing of tables."""

import re

import pytest

import damaged
from damaged import core_of
from handoff.commands import repair
from handoffd.store.core import CoreStore
from handoffd.store.threads import Said


@pytest.fixture
def kept(house) -> CoreStore:
    """A core.db with a thread of 40 entries."""
    house.state.mkdir(parents=True, mode=0o700)
    core = CoreStore(str(core_of(house)))
    core.threads.create("hof_x", "t", None, Said("chat", "context", "first", "t"))
    for number in range(39):
        core.threads.add("hof_x", Said("chat", "done", f"entry {number} {'x' * 200}", "t"), 1 << 20)
    return core


def told(house, *options: str) -> list[str]:
    done = house.handoff("repair", *options)
    assert 0 == done.returncode, done.stderr
    return done.stdout.splitlines()


def test_what_a_copy_has_is_told_in_a_line(house, kept):
    """The first line sums up what can be had and what not; then it says where each kind is from."""
    kept.back_up()
    kept.close()
    damaged.garbage(core_of(house))
    first, *rows = told(house, "--dry-run")

    summary = r"core.db: file is not a database\. 4\d of its rows can be saved; what was new since "
    summary += r"the daily copy was made \(20\S+Z\) and cannot be read is lost, if there was any\."
    assert re.fullmatch(summary, first)
    assert ["  threads             1 from the daily copy"] == [r for r in rows if "threads  " in r][
        :1
    ]
    assert "  entries of threads  40 from the daily copy" in rows
    assert "unknown" not in "".join((first, *rows))


def test_without_a_copy_that_is_said(house, kept):
    """Nobody can tell how much is lost: then that is said, once, and no kind has a number."""
    kept.close()
    damaged.garbage(core_of(house))
    first, *rows = told(house, "--dry-run")

    assert first.endswith("; nobody can tell how much is lost: there is no daily copy.")
    assert [
        "What was paused is not known any more, so everything is paused.",
        "Go on with: handoff unpause",
    ] == rows


def test_what_was_done_is_told(house, kept):
    """Where nothing is lost it says so, and where the damaged file is kept."""
    kept.back_up()
    kept.close()
    damaged.page(core_of(house), b"entry 30 ")
    first, *rows = told(house, "--yes")

    assert "of its rows were saved; nothing is lost." in first
    row = next(row for row in rows if row.startswith("  entries"))
    of_file, of_copy = map(int, re.findall(r"(\d+) from", row))
    assert (40, True) == (of_file + of_copy, of_copy > 0)
    kept_at = re.search(r"The damaged file is kept at (~/\S+);", rows[-1])[1]
    assert (house.home / kept_at.removeprefix("~/")).exists()


def test_help_says_what_repair_does(house):
    """That the daemon is stopped, where the damaged file is kept, and when it exits with 4."""
    text = " ".join(house.handoff("repair", "--help").stdout.split())

    for words in ("stopped for it, and started again", "core.db.replaced-TIME", "exit code is 4"):
        assert words in text


@pytest.mark.parametrize("older", [[], [7]])
def test_a_damaged_log_is_told(older, capsys):
    """Parts of the log that cannot be read are said to be lost only where nothing newer has them."""
    table = {"read": 3, "copied": 0, "lost": 0, "whole": True}
    log = {"taken": 5, "damaged": [2], "older_pages": older, "unknown_page": False}
    core = {"problem": "damaged", "kept": None, "tables": {"pauses": table}, "copy_at": None}
    core |= {"all_paused": False, "log": log}
    repair._print({"core": core, "state": None, "done": False}, as_json=False)
    first, _, last = capsys.readouterr().out.splitlines()

    assert bool(older) is ("some may be lost" in first)
    assert last.startswith("Of its log 5 parts could be read, 1 not")
    assert bool(older) is not ("nothing is lost by that" in last)
