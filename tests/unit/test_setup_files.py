"""Other programs' files: reasons not to replace one, and atomic replacement."""

import os
import threading
import time

import pytest

from conftest import wait_for
from handoff.common.errors import HandoffError
from handoff.setup import foreign_files


@pytest.fixture
def path(tmp_path):
    found = tmp_path / "settings.json"
    found.write_bytes(b"{}")
    return found


def change(path, before, after):
    foreign_files.replace(foreign_files.Draft(str(path), "x", before, after), before, after)


def test_a_file_that_can_be_replaced(path):
    """A plain file of the user has no problem, and its mode is kept."""
    path.chmod(0o640)

    draft = foreign_files.read_draft(str(path), "hooks")

    assert (b"{}", None, []) == (draft.before, draft.problem, draft.missing_directories)
    foreign_files.replace(draft, b"{}", b"[]")
    assert b"[]" == path.read_bytes()
    assert 0o640 == path.stat().st_mode & 0o777
    assert [path] == list(path.parent.iterdir())


def test_a_new_file_is_for_the_user_alone(tmp_path):
    """A new file and the directories that it needs are private."""
    path = tmp_path / "a/b/new.json"

    assert [str(tmp_path / "a"), str(tmp_path / "a/b")] == foreign_files.read_draft(
        str(path), "x"
    ).missing_directories
    change(path, None, b"{}")

    assert 0o600 == path.stat().st_mode & 0o777
    assert 0o700 == (tmp_path / "a").stat().st_mode & 0o777


def test_a_link_is_followed_and_stays(path, tmp_path):
    """The target of a chain of links is changed, and the links stay."""
    (tmp_path / "inner.json").symlink_to(path)
    link = tmp_path / "home/link.json"
    link.parent.mkdir()
    link.symlink_to("../inner.json")

    draft = foreign_files.read_draft(str(link), "hooks")
    foreign_files.replace(draft, b"{}", b"[]")

    assert (None, b"{}", str(path)) == (draft.problem, draft.before, draft.target)
    assert "../inner.json" == os.readlink(link)
    assert b"[]" == path.read_bytes()
    assert not path.is_symlink()


def test_a_link_that_leads_elsewhere_meanwhile(path, tmp_path):
    """If a link changes its target meanwhile, neither file is changed, even with equal texts."""
    link, other = tmp_path / "link.json", tmp_path / "other.json"
    other.write_bytes(b"{}")
    link.symlink_to(path)
    draft = foreign_files.read_draft(str(link), "hooks")
    link.unlink()
    link.symlink_to(other)

    with pytest.raises(HandoffError, match="changed meanwhile"):
        foreign_files.replace(draft, b"{}", b"[]")

    assert b"{}" == path.read_bytes() == other.read_bytes()


def test_links_that_are_not_followed(path, tmp_path):
    """A link to nowhere, in a circle, to no file, or where others can write is not followed."""
    (tmp_path / "nowhere").symlink_to(tmp_path / "gone")
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    (tmp_path / "directory").symlink_to(tmp_path)
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "settings.json").write_bytes(b"{}")
    shared.chmod(0o777)
    (tmp_path / "open").symlink_to(shared / "settings.json")

    for name, why in (
        ("nowhere", "which is not there"),
        ("circle", ""),
        ("directory", "is no file"),
        ("open", f"others can write to {shared}"),
    ):
        problem = foreign_files.read_draft(str(tmp_path / name), "x").problem
        assert problem is not None, name
        assert why in problem.title


@pytest.mark.parametrize("mode", [0o770, 0o777, 0o702])
@pytest.mark.parametrize(
    "where", ["of the file", "above it", "of a link between", "of a linked directory"]
)
def test_a_link_through_a_directory_that_others_can_write_to(tmp_path, where, mode):
    """No directory on the path of a link may be writable by the group or by all."""
    shared, deep, link = tmp_path / "shared", tmp_path / "shared/deep", tmp_path / "link"
    deep.mkdir(parents=True)
    (tmp_path / "own").write_bytes(b"{}")
    (shared / "settings.json").write_bytes(b"{}")
    (deep / "settings.json").write_bytes(b"{}")
    (shared / "between").symlink_to("../own")
    (tmp_path / "linked").symlink_to(deep)
    path = link
    if where == "of a linked directory":
        path = tmp_path / "linked/settings.json"
    else:
        targets = {"of the file": shared / "settings.json", "above it": deep / "settings.json"}
        link.symlink_to(targets.get(where, shared / "between"))
    assert foreign_files.read_draft(str(path), "x").problem is None
    shared.chmod(mode)
    problem = foreign_files.read_draft(str(path), "x").problem
    assert f"others can write to {shared}." in problem.title
    assert f"chmod go-w {shared}" in problem.hint
    shared.chmod(mode | 0o1000)  # others can add files there, but not remove any

    assert foreign_files.read_draft(str(path), "x").problem is None


def test_a_new_file_below_a_linked_directory(tmp_path):
    """A file that does not exist yet is judged by the same path."""
    shared = tmp_path / "shared"
    shared.mkdir()
    (tmp_path / "linked").symlink_to(shared)
    assert foreign_files.read_draft(f"{tmp_path}/linked/new/settings.json", "x").problem is None
    shared.chmod(0o775)

    assert (
        "others can write"
        in foreign_files.read_draft(f"{tmp_path}/linked/new/settings.json", "x").problem.title
    )


@pytest.mark.skipif(
    os.geteuid() != 0,
    reason="gives a link to another user, which only root may do: run the tests as root",
)
def test_another_user_s_link(path, tmp_path):
    """Another user's link in a directory such as /tmp is not followed."""
    between = tmp_path / "between"
    between.symlink_to(path)
    os.lchown(between, 61000, 61000)
    tmp_path.chmod(0o1777)
    (tmp_path / "link").symlink_to(between)

    assert (
        f"others can write to {between}."
        in foreign_files.read_draft(str(tmp_path / "link"), "x").problem.title
    )


def test_a_directory_that_goes_meanwhile(path, tmp_path, monkeypatch):
    """An error on the path is reported as a problem, not as a traceback."""

    def gone(_path):
        raise PermissionError(13, "Permission denied")

    (tmp_path / "link").symlink_to(path)
    monkeypatch.setattr(foreign_files.os, "readlink", gone)
    monkeypatch.setattr(foreign_files.os.path, "realpath", lambda _path: str(path))

    assert (
        "cannot be followed" in foreign_files.read_draft(str(tmp_path / "link"), "x").problem.title
    )


@pytest.mark.skipif(
    os.geteuid() != 0,
    reason="gives a file to another user, which only root may do: run the tests as root",
)
def test_a_link_to_another_user_s_file(path, tmp_path):
    """A link to another user's file is not followed, even if we could write it."""
    os.chown(path, 61000, 61000)
    (tmp_path / "link").symlink_to(path)

    assert (
        "another user (id 61000)"
        in foreign_files.read_draft(str(tmp_path / "link"), "x").problem.title
    )


def test_no_write_bit_means_read_only(path):
    """A file without a write bit is read-only, for root as well."""
    path.chmod(0o444)

    assert "read-only" in foreign_files.read_draft(str(path), "x").problem.title
    assert "chmod u+w" in foreign_files.read_draft(str(path), "x").problem.hint


def test_a_directory_in_which_nothing_can_be_made(tmp_path):
    """A missing and an existing file below a read-only directory are read-only."""
    (tmp_path / "closed").mkdir()
    (tmp_path / "closed/there").write_bytes(b"")
    (tmp_path / "closed").chmod(0o555)

    for name in ("missing", "there", "deep/below"):
        assert (
            "read-only" in foreign_files.read_draft(f"{tmp_path}/closed/{name}", "x").problem.title
        )
    (tmp_path / "closed").chmod(0o755)


def test_something_else_in_place_of_a_file(tmp_path):
    """A FIFO without a writer does not block, and a directory is no file."""
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "directory").mkdir()
    (tmp_path / "below").write_bytes(b"")

    for name in ("fifo", "directory"):
        assert "is no file" in foreign_files.read_draft(f"{tmp_path}/{name}", "x").problem.title
    assert foreign_files.read_draft(f"{tmp_path}/below/file", "x").problem


@pytest.mark.skipif(
    os.geteuid() != 0,
    reason="gives a file to another user, which only root may do: run the tests as root",
)
def test_another_user_s_file(path):
    """Another user's file is reported with the owner's id."""
    os.chown(path, 61000, 61000)

    assert "another user (id 61000)" in foreign_files.read_draft(str(path), "x").problem.title


def test_bytes_that_are_no_text(path):
    """A file that is not UTF-8 is a problem, and its text stays empty."""
    path.write_bytes(b'{"a": "\xff"}')

    draft = foreign_files.read_draft(str(path), "x")

    assert "no UTF-8" in draft.problem.title
    assert "" == draft.text


@pytest.mark.parametrize("after", [b"new", None])
def test_a_file_that_changed_meanwhile_is_left(path, after):
    """Another program's write is never lost, and no file of ours is left beside it."""
    path.write_bytes(b"theirs")

    with pytest.raises(HandoffError, match="changed meanwhile"):
        change(path, b"{}", after)

    assert [path] == list(path.parent.iterdir())
    assert b"theirs" == path.read_bytes()


def test_a_file_that_appeared_meanwhile_is_left(path):
    """A file that was missing at first and then appeared is not replaced."""
    with pytest.raises(HandoffError, match="changed meanwhile"):
        change(path, None, b"new")


def test_claude_code_s_lock_is_waited_for(tmp_path):
    """While the directory .claude.json.lock exists, we wait for its holder."""
    path, lock = tmp_path / ".claude.json", tmp_path / ".claude.json.lock"
    lock.mkdir()
    writer = threading.Thread(target=change, args=(path, None, b"{}"))
    writer.start()
    writer.join(0.3)

    assert not path.exists()
    lock.rmdir()
    writer.join(60)
    assert b"{}" == path.read_bytes()
    assert not lock.exists()


def test_a_lock_that_a_crash_left_is_taken(tmp_path):
    """A lock without a sign of life for ten seconds is taken over, as Claude Code does."""
    path, lock = tmp_path / ".claude.json", tmp_path / ".claude.json.lock"
    lock.mkdir()
    os.utime(lock, (time.time() - 11,) * 2)

    change(path, None, b"{}")

    wait_for(path.exists)
    assert not lock.exists()


def test_a_lock_that_is_kept_alive_is_said(tmp_path, monkeypatch):
    """For a lock that stays in use we give up with an error that says so."""
    monkeypatch.setattr(foreign_files, "LOCK_PATIENCE_SECONDS", 0.1)
    (tmp_path / ".claude.json.lock").mkdir()

    with pytest.raises(HandoffError, match="locked by another program"):
        change(f"{tmp_path}/.claude.json", None, b"{}")
