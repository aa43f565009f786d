"""The lines of a growing file: every line once, in any pieces."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handoffd.ingest import tailer
from handoffd.ingest.tailer import Replaced, Tail
from handoffd.store.cursor import Cursor


def drain(tail: Tail, ceiling=None) -> list[tuple[int, bytes]]:
    """Read until there is no more for now."""
    lines = []
    while True:
        taken = tail.read(ceiling)
        lines += taken.lines
        if not taken.more:
            return lines


def make(path: Path) -> Tail:
    return Tail(Cursor("t", "s", str(path)))


@settings(max_examples=150, deadline=None)
@given(
    data=st.lists(st.binary(max_size=30).map(lambda b: b.replace(b"\n", b"")), max_size=8),
    cuts=st.lists(st.integers(0, 250), max_size=6),
    restarts=st.sets(st.integers(0, 6)),
)
def test_any_pieces_give_the_same_lines(data, cuts, restarts):
    """Any split, and a new reader at any time, give the same lines at the same offsets."""
    whole = b"\n".join(data) + b"\n"
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "t"
        path.touch()
        tail = make(path)
        found = []
        places = sorted({min(cut, len(whole)) for cut in cuts} | {len(whole)})
        done = 0
        for number, place in enumerate(places):
            with path.open("ab") as stream:
                stream.write(whole[done:place])
            done = place
            if number in restarts:
                tail = Tail(tail.cursor)
            found += drain(tail)

    expected, offset = [], 0
    for line in whole.split(b"\n")[:-1]:
        expected.append((offset, line))
        offset += len(line) + 1
    assert expected == found


def test_oversized_lines_are_dropped_in_bounded_memory(tmp_path, monkeypatch):
    """A line over the limit is counted once, its memory is freed, and the next line is read."""
    monkeypatch.setattr(tailer, "LINE_MAX_BYTES", 1000)
    monkeypatch.setattr(tailer, "SLICE_BYTES", 300)
    path = tmp_path / "t"
    path.write_bytes(b"a\n" + b"x" * 5000)
    tail = make(path)
    first = drain(tail)
    assert tail.pending_bytes <= 1300
    with path.open("ab") as stream:
        stream.write(b"x" * 50 + b"\nb\n")

    assert [(0, b"a")] == first
    taken = tail.read()
    assert ([(5053, b"b")], 1) == (taken.lines, taken.oversized)


@pytest.mark.parametrize("new", [b"", b"bbbb\n", b"bbbb\ncccc\ndddd\n", b"aaaa\nXbbb\ncccc\n"])
def test_replacement_is_recognised(tmp_path, new):
    """Other content, shorter, longer or equal in size, is never taken for the old one."""
    path = tmp_path / "t"
    path.write_bytes(b"aaaa\nbbbb\n")
    tail = make(path)
    drain(tail)
    path.write_bytes(new)

    with pytest.raises(Replaced):
        tail.read()


def test_replacement_behind_the_first_kilobyte_is_recognised(tmp_path):
    """A file with the old beginning and rewritten last lines is another file."""
    path = tmp_path / "t"
    path.write_bytes(b"a" * 2000 + b"\nbbbb\n")
    tail = make(path)
    drain(tail)
    path.write_bytes(b"a" * 2000 + b"\ncccc\ndddd\n")

    with pytest.raises(Replaced):
        tail.read()


def test_growth_in_a_new_inode_is_no_replacement(tmp_path):
    """A file that was copied and grew, with the same beginning, continues at the old offset."""
    path = tmp_path / "t"
    path.write_bytes(b"aaaa\n")
    tail = make(path)
    drain(tail)
    path.unlink()
    path.write_bytes(b"aaaa\nbbbb\n")

    assert [(5, b"bbbb")] == drain(tail)


def test_ceiling_and_jump(tmp_path):
    """Nothing beyond the ceiling is read; after a jump into a line that line is dropped."""
    path = tmp_path / "t"
    path.write_bytes(b"aaaa\nbbbb\ncccc\ndddd\n")
    tail = make(path)

    assert [(0, b"aaaa")] == drain(tail, ceiling=7)
    tail.skip_to(12)
    taken = tail.read()
    assert ([(15, b"dddd")], 0) == (taken.lines, taken.oversized)


def test_no_fifo_and_no_symlink(tmp_path):
    """A FIFO does not block, and a symlink is not followed."""
    import os

    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to("/etc/passwd")
    for name in ("fifo", "link"):
        with pytest.raises(OSError):  # noqa: PT011
            make(tmp_path / name).read()
