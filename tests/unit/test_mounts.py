"""Detection of network disks, and of disks that do not answer."""

import threading

import pytest

from conftest import wait_for
from handoffd.fs import mounts

TABLE = r"""
22 27 0:21 / /proc rw,relatime - proc proc rw
31 27 8:1 / / rw shared:1 - ext4 /dev/sda1 rw
40 31 0:50 / /net/home rw,relatime shared:2 - nfs4 server:/home rw,vers=4.2
41 31 0:51 / /net/my\040disk rw - fuse.sshfs ann@server:/ rw
42 31 0:52 / /mnt/stick rw - fuseblk /dev/sdb1 rw
43 40 0:53 / /net/home/ann rw - cifs //server/ann rw
44 31 0:54 / /shared rw - 9p host rw
46 40 8:2 / /net/home/scratch rw - ext4 /dev/sda2 rw
47 46 0:56 / /net/home/scratch/far rw - nfs server:/far rw
48 31 0:57 / /auto rw - autofs systemd-1 rw
49 48 0:58 / /auto rw - nfs server:/auto rw
45 31 0:55 / /sys/fs/fuse/connections rw - fusectl fusectl rw
"""


@pytest.fixture
def table(tmp_path, monkeypatch):
    """A machine with disks of many kinds."""
    path = tmp_path / "mountinfo"
    path.write_text(TABLE)
    monkeypatch.setattr(mounts, "_TABLE", str(path))
    monkeypatch.setattr(mounts, "_table", b"")
    monkeypatch.setattr(mounts, "_disks", {})
    monkeypatch.setattr(mounts, "_local", set())
    return path


@pytest.mark.parametrize(
    ("path", "remote"),
    [
        ("/net/home/bob/code", True),
        ("/net/home", True),
        ("/net/homes/bob", False),
        ("/net/my disk/code", True),
        ("/mnt/stick/code", False),
        ("/shared/code", True),
        ("/net/home/scratch/code", False),
        ("/net/home/scratch/far/code", True),
        ("/auto/code", True),
        ("/home/ann/code", False),
        ("", False),
    ],
)
def test_kinds_of_disks(table, path, remote):
    """A network disk is known by its type, and a path by the disk on which it lies."""
    assert remote == bool(mounts.disk_of(path))


def test_silent_disk(table, monkeypatch):
    """A disk that does not answer is asked once, and no other disk is asked."""
    answered, asked = threading.Event(), []
    monkeypatch.setattr(
        mounts.os, "statvfs", lambda point: asked.append(point) or answered.wait(20)
    )
    found = [mounts.answers(path) for path in ("/net/home/ann/x", "/net/home/ann/y", "/home/x")]

    assert [False, False, True] == found
    assert ["/net/home/ann"] == asked == mounts.silent()
    with pytest.raises(mounts.SilentError, match="/net/home/ann does not answer"):
        mounts.require("/net/home/ann/x")
    answered.set()
    wait_for(lambda: mounts.answers("/net/home/ann/x"))
    assert [] == mounts.silent()


def test_disk_that_is_gone(table):
    """An unmounted disk no longer counts as a network disk."""
    assert mounts.disk_of("/shared/code")
    table.write_text(TABLE.replace("9p", "ext4"))
    mounts.refresh()

    assert not mounts.disk_of("/shared/code")


def test_everything_on_a_network_disk(table):
    """A machine with a network root is recognised, and so are the local mounts below the root."""
    table.write_text(TABLE.replace("ext4 /dev/sda1", "nfs server:/root"))

    assert ["/", "/", ""] == [mounts.disk_of(path) for path in ("/home/ann", "/", "/proc/self")]


def test_no_network_disk(table):
    """A machine with only local disks has no network disk."""
    table.write_text("31 27 8:1 / / rw shared:1 - ext4 /dev/sda1 rw\n")

    assert "" == mounts.disk_of("/home/ann")
    assert not mounts.has_remote()
