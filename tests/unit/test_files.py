"""The only writer of files: atomic, durable, never through a symlink."""

import os
import shutil
import subprocess
import sys

import pytest

from handoff.common.errors import HandoffError, UnsafePathError
from handoffd.fs import files


def test_write_replaces_and_leaves_nothing_beside(tmp_path):
    """After a write the directory holds the new file, mode 0600, and no temporary one."""
    with files.directory(str(tmp_path)) as handle:
        files.write(handle, "a", b"one")
        files.write(handle, "a", b"two")

    assert ["a"] == os.listdir(tmp_path)
    assert b"two" == (tmp_path / "a").read_bytes()
    assert 0o600 == (tmp_path / "a").stat().st_mode & 0o777


@pytest.mark.parametrize("part", ["sub", "sub/deeper"])
def test_symlinked_components_are_refused(tmp_path, part):
    """A symlink anywhere below the root is refused, and its target stays untouched."""
    outside = tmp_path / "outside"
    outside.mkdir()
    root = tmp_path / "root"
    (root / part).parent.mkdir(parents=True)
    (root / part).symlink_to(outside)

    with (
        pytest.raises(UnsafePathError, match="symlink"),
        files.directory(str(root), "sub/deeper", create=True),
    ):
        pass
    assert [] == os.listdir(outside)


def test_symlinked_target_is_refused(tmp_path):
    """A target that is a symlink is not replaced, and its target is not read."""
    secret = tmp_path / "secret"
    secret.write_text("s")
    (tmp_path / "a").symlink_to(secret)
    with files.directory(str(tmp_path)) as handle:
        with pytest.raises(UnsafePathError):
            files.write(handle, "a", b"x")
        with pytest.raises(UnsafePathError):
            files.read(handle, "a", 100)

    assert "s" == secret.read_text()
    assert {"a", "secret"} == set(os.listdir(tmp_path))


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_fifo_and_directory_are_refused_at_once(tmp_path, make):
    """A FIFO or a directory in place of the file does not block and is not replaced."""
    make(tmp_path / "a")
    with files.directory(str(tmp_path)) as handle:
        with pytest.raises((UnsafePathError, OSError)):
            files.read(handle, "a", 100)
        with pytest.raises((UnsafePathError, OSError)):
            files.write(handle, "a", b"x")

    assert ["a"] == os.listdir(tmp_path)


def test_compare_refuses_a_changed_file(tmp_path):
    """With `compare`, a file that changed since it was read is left alone."""
    (tmp_path / "a").write_text("one")
    with files.directory(str(tmp_path)) as handle:
        _, status = files.read(handle, "a", 100)
        (tmp_path / "a").write_text("other")
        done = files.write(handle, "a", b"mine", expected=status)
        missing = files.write(handle, "b", b"mine", expected=status)

    assert (None, None) == (done, missing)
    assert "other" == (tmp_path / "a").read_text()
    assert ["a"] == os.listdir(tmp_path)


def test_missing_root_is_not_made(tmp_path):
    """A missing root is an error and is not created."""
    with (
        pytest.raises(FileNotFoundError),
        files.directory(str(tmp_path / "gone"), "x", create=True),
    ):
        pass


def test_lock_gives_up(tmp_path):
    """A lock that another process holds is waited for, with a limit."""
    with files.directory(str(tmp_path)) as handle, files.locked(handle, ".lock", 1):
        code = (
            "import sys; from handoffd.fs import files\n"
            "with files.directory(sys.argv[1]) as h, files.locked(h, '.lock', 0.1): pass"
        )
        done = subprocess.run(
            [sys.executable, "-P", "-c", code, str(tmp_path)],
            capture_output=True,
            text=True,
            check=False,
        )

    assert "Another program holds .lock" in done.stderr


def test_read_limit(tmp_path):
    """A file over the limit is an error that names both sizes."""
    (tmp_path / "a").write_bytes(b"x" * 101)
    with (
        files.directory(str(tmp_path)) as handle,
        pytest.raises(HandoffError, match="101 bytes; the limit is 100"),
    ):
        files.read(handle, "a", 100)


def test_sweep_removes_only_ours(tmp_path):
    """Only our own temporary files are removed."""
    (tmp_path / f".a.123{files.TEMPORARY_SUFFIX}").touch()
    (tmp_path / ".hidden").touch()
    with files.directory(str(tmp_path)) as handle:
        assert 1 == files.sweep(handle)

    assert [".hidden"] == os.listdir(tmp_path)


def test_full_disk_keeps_the_old_file(tmp_path, monkeypatch):
    """If writing fails, the old file stays byte for byte, and no file is left beside it."""
    (tmp_path / "a").write_text("old")

    def full(*_):
        raise OSError(28, "No space left on device")

    with files.directory(str(tmp_path)) as handle:
        monkeypatch.setattr(os, "write", full)
        with pytest.raises(OSError, match="No space left"):
            files.write(handle, "a", b"new")
        monkeypatch.undo()

    assert ["a"] == os.listdir(tmp_path)
    assert "old" == (tmp_path / "a").read_text()


def test_order_of_system_calls(tmp_path):
    """A write opens with O_EXCL|O_NOFOLLOW 0600, writes, syncs, renames, syncs the directory."""
    if shutil.which("strace") is None:
        pytest.skip("strace is missing: install it (Debian: apt-get install strace)")
    code = (
        "import sys; from handoffd.fs import files\n"
        "with files.directory(sys.argv[1]) as handle: files.write(handle, 'a', b'data')"
    )
    done = subprocess.run(
        ["strace", "-f", "-e", "trace=openat,write,fsync,rename,renameat,renameat2", sys.executable, "-P", "-c", code, str(tmp_path)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if "ptrace" in done.stderr and "not permitted" in done.stderr:
        pytest.skip("strace may not trace here: allow ptrace in this container (CAP_SYS_PTRACE)")
    lines = [line for line in done.stderr.splitlines() if "strace" not in line]
    start = next(
        number for number, line in enumerate(lines) if "handoffd-tmp" in line and "O_EXCL" in line
    )
    calls = [line.split("(")[0].split()[-1] for line in lines[start : start + 5]]

    assert "O_NOFOLLOW" in lines[start]
    assert "0600" in lines[start]
    assert ["openat", "write", "fsync"] == calls[:3]
    assert calls[3].startswith("rename")
    assert "fsync" == calls[4]


def test_modes_hold_whatever_the_umask(tmp_path):
    """A requested mode is given to created files only, for any umask."""
    (tmp_path / "there").mkdir(mode=0o711)
    before = os.umask(0o077)
    try:
        with files.directory(str(tmp_path), "there/new", create=True, mode=0o755) as handle:
            files.write(handle, "a", b"one", mode=0o644)
    finally:
        os.umask(before)

    modes = [path.stat().st_mode & 0o777 for path in (tmp_path / "there/new/a").parents][:2]
    assert [0o755, 0o711] == modes
    assert 0o644 == (tmp_path / "there/new/a").stat().st_mode & 0o777


def test_touch(tmp_path):
    """A file gets the current time and keeps its content; a missing file is created."""
    (tmp_path / "a").write_text("kept")
    os.utime(tmp_path / "a", (1000, 1000))
    with files.directory(str(tmp_path)) as handle:
        files.touch(handle, "a")
        files.touch(handle, "b", 0o644)

    assert "kept" == (tmp_path / "a").read_text()
    assert 1000 < (tmp_path / "a").stat().st_mtime
    assert (0, 0o644) == ((tmp_path / "b").stat().st_size, (tmp_path / "b").stat().st_mode & 0o777)


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: os.symlink("elsewhere", path)])
def test_touch_refuses_what_is_no_file(tmp_path, make):
    """A link, a FIFO or a directory is not touched, and nothing replaces it."""
    make(tmp_path / "a")
    with files.directory(str(tmp_path)) as handle, pytest.raises(UnsafePathError):
        files.touch(handle, "a")

    assert ["a"] == os.listdir(tmp_path)


def test_directory_is_its_own_lock(tmp_path):
    """A locked directory excludes others until it is closed; shared locks allow each other."""
    root = str(tmp_path)
    with files.directory(root) as first, files.directory(root) as second:
        files.lock_directory(first, "it", 0, shared=True)
        files.lock_directory(second, "it", 0, shared=True)
        with files.directory(root) as third, pytest.raises(files.BusyError):
            files.lock_directory(third, "it", 0.01)
    with files.directory(root) as fourth:
        files.lock_directory(fourth, "it", 0)

    assert [] == os.listdir(tmp_path)


def test_directory_that_cannot_be_locked(tmp_path, monkeypatch):
    """On a file system that cannot lock directories a writer goes on without a lock."""

    def refuse(*_):
        raise OSError(9, "Bad file descriptor")

    monkeypatch.setattr(files.fcntl, "flock", refuse)
    with files.directory(str(tmp_path)) as handle:
        files.lock_directory(handle, "it", 0)
