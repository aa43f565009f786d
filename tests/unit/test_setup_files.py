"""Files of others: what keeps us from replacing one, and that it is replaced whole or not at all."""

import os
import threading
import time

import pytest

from conftest import wait_for
from handoff.errors import HandoffError
from handoff.installing import files


@pytest.fixture
def path(tmp_path):
    found = tmp_path / "settings.json"
    found.write_bytes(b"{}")
    return found


def test_a_file_that_can_be_replaced(path):
    """Nothing is wrong with it, and its mode is kept."""
    path.chmod(0o640)

    draft = files.look(str(path), "hooks")

    assert (b"{}", None, []) == (draft.before, draft.problem, draft.missing_directories)
    files.replace(str(path), b"{}", b"[]", draft.mode)
    assert b"[]" == path.read_bytes()
    assert 0o640 == path.stat().st_mode & 0o777
    assert [path] == list(path.parent.iterdir())


def test_a_new_file_is_for_the_user_alone(tmp_path):
    """It and the directories that it needs."""
    path = tmp_path / "a/b/new.json"

    assert [str(tmp_path / "a"), str(tmp_path / "a/b")] == files.look(
        str(path), "x"
    ).missing_directories
    files.replace(str(path), None, b"{}")

    assert 0o600 == path.stat().st_mode & 0o777
    assert 0o700 == (tmp_path / "a").stat().st_mode & 0o777


def test_a_link_is_named_with_where_it_leads(path, tmp_path):
    """Replacing it would cut it from a person's dotfiles."""
    link = tmp_path / "link.json"
    link.symlink_to(path)

    draft = files.look(str(link), "hooks")

    assert str(path) in draft.problem.title
    assert b"{}" == draft.before


def test_no_write_bit_means_read_only(path):
    """For root as well."""
    path.chmod(0o444)

    assert "read-only" in files.look(str(path), "x").problem.title
    assert "chmod u+w" in files.look(str(path), "x").problem.hint


def test_a_directory_in_which_nothing_can_be_made(tmp_path):
    """A file that is missing, or there, below a read-only directory."""
    (tmp_path / "closed").mkdir()
    (tmp_path / "closed/there").write_bytes(b"")
    (tmp_path / "closed").chmod(0o555)

    for name in ("missing", "there", "deep/below"):
        assert "read-only" in files.look(f"{tmp_path}/closed/{name}", "x").problem.title
    (tmp_path / "closed").chmod(0o755)


def test_something_else_in_place_of_a_file(tmp_path):
    """A FIFO that nobody writes to does not hold us; a directory is no file."""
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "directory").mkdir()
    (tmp_path / "below").write_bytes(b"")

    for name in ("fifo", "directory"):
        assert "is no file" in files.look(f"{tmp_path}/{name}", "x").problem.title
    assert files.look(f"{tmp_path}/below/file", "x").problem


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give a file away")
def test_another_user_s_file(path):
    """It is named with its owner."""
    os.chown(path, 61000, 61000)

    assert "another user (id 61000)" in files.look(str(path), "x").problem.title


def test_bytes_that_are_no_text(path):
    """Nothing is guessed."""
    path.write_bytes(b'{"a": "\xff"}')

    draft = files.look(str(path), "x")

    assert "no UTF-8" in draft.problem.title
    assert "" == draft.text


@pytest.mark.parametrize("after", [b"new", None])
def test_a_file_that_changed_meanwhile_is_left(path, after):
    """Another program's write is never lost, and nothing of ours is left beside it."""
    path.write_bytes(b"theirs")

    with pytest.raises(HandoffError, match="changed meanwhile"):
        files.replace(str(path), b"{}", after)

    assert [path] == list(path.parent.iterdir())
    assert b"theirs" == path.read_bytes()


def test_a_file_that_appeared_meanwhile_is_left(path):
    """What was missing when it was looked at."""
    with pytest.raises(HandoffError, match="changed meanwhile"):
        files.replace(str(path), None, b"new")


def test_claude_code_s_lock_is_waited_for(tmp_path):
    """While the directory .claude.json.lock is there, its holder is writing."""
    path, lock = tmp_path / ".claude.json", tmp_path / ".claude.json.lock"
    lock.mkdir()
    writer = threading.Thread(target=files.replace, args=(str(path), None, b"{}"))
    writer.start()
    writer.join(0.3)

    assert not path.exists()
    lock.rmdir()
    writer.join(10)
    assert b"{}" == path.read_bytes()
    assert not lock.exists()


def test_a_lock_that_a_crash_left_is_taken(tmp_path):
    """As Claude Code takes it: after ten seconds without a sign of life."""
    path, lock = tmp_path / ".claude.json", tmp_path / ".claude.json.lock"
    lock.mkdir()
    os.utime(lock, (time.time() - 11,) * 2)

    files.replace(str(path), None, b"{}")

    wait_for(path.exists)
    assert not lock.exists()


def test_a_lock_that_is_kept_alive_is_said(tmp_path, monkeypatch):
    """We give up, and name it."""
    monkeypatch.setattr(files, "LOCK_PATIENCE_SECONDS", 0.1)
    (tmp_path / ".claude.json.lock").mkdir()

    with pytest.raises(HandoffError, match="locked by another program"):
        files.replace(f"{tmp_path}/.claude.json", None, b"{}")
