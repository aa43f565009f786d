"""Ways to damage a database, and functions to fill and read the stores of a sandbox."""

import contextlib
import os
import random
import sqlite3
from pathlib import Path

from conftest import DaemonSandbox, wait_for

PAGE = 4096


def garbage(path: Path) -> None:
    """Replace the file by other bytes."""
    path.write_bytes(b"this is no database " * 1000)


def header(path: Path) -> None:
    """Overwrite the first page."""
    _overwrite(path, 0)


def page(path: Path, words: bytes = b"") -> None:
    """Overwrite one page in the middle: the one with these words, if any are given."""
    found = path.read_bytes().find(words) // PAGE if words else path.stat().st_size // PAGE // 2
    assert found > 0, words
    _overwrite(path, found)


def entries(path: Path) -> None:
    """Overwrite a page with the entries of a thread."""
    page(path, b"entry 30 ")


def _overwrite(path: Path, number: int) -> None:
    with path.open("r+b") as stream:
        stream.seek(number * PAGE)
        stream.write(random.Random(7).randbytes(PAGE))


def stale(path: Path, table: str) -> None:
    """Overwrite a table's page with an empty one, which can be read without an error."""
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        query = "SELECT rootpage FROM sqlite_master WHERE name = ?"
        number = db.execute(query, (table,)).fetchone()[0]
    with path.open("r+b") as stream:
        stream.seek((number - 1) * PAGE)
        stream.write(bytes([13, 0, 0, 0, 0, PAGE >> 8, 0, 0]) + bytes(PAGE - 8))


# Values that no cell may hold: bytes that are no text, and a text that is no JSON.
NO_TEXT, NO_JSON = "CAST(X'2fff' AS TEXT)", "'{'"


def cell(path: Path, table: str, column: str, value: str) -> None:
    """Give a row an invalid value in which SQLite sees no error."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
        first = f"(SELECT min(rowid) FROM {table})"
        done = db.execute(f"UPDATE {table} SET {column} = {value} WHERE rowid = {first}")
        assert 1 == done.rowcount
        assert ("ok",) == db.execute("PRAGMA integrity_check").fetchone()


def half(path: Path) -> None:
    """Cut off the second half."""
    os.truncate(path, path.stat().st_size // 2 // PAGE * PAGE)


def empty(path: Path) -> None:
    """Empty the file and remove its log."""
    path.write_bytes(b"")
    log_of(path).unlink(missing_ok=True)


def gone(path: Path) -> None:
    path.unlink()
    log_of(path).unlink(missing_ok=True)


def log(path: Path) -> None:
    """Replace the database's log by bytes that are no log."""
    log_of(path).write_bytes(b"this is no log" * 1000)


def directory(path: Path) -> None:
    path.unlink()
    log_of(path).unlink(missing_ok=True)
    path.mkdir()


def log_of(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def core_of(sandbox: DaemonSandbox) -> Path:
    return sandbox.state / "core.db"


def talk(sandbox: DaemonSandbox, number: int, size: int = 300, after: str = "") -> tuple[str, int]:
    """Write entries to a thread, and make a copy of core.db; `after` is written after that."""
    thread = sandbox.call("thread", action="create", title="t", content="first")["id"]
    for count in range(number - 1):
        say(sandbox, thread, f"entry {count} " + "x" * size)
    copy = core_of(sandbox).with_name("core.db.backup")
    sandbox.stop()
    copy.unlink(missing_ok=True)  # a copy that was made while the first entries were written
    sandbox.start()  # which makes the copy
    wait_for(copy.exists, what="the copy")
    if after:
        say(sandbox, thread, after)
    return thread, number + bool(after)


def say(sandbox: DaemonSandbox, thread: str, words: str) -> dict:
    return sandbox.request(
        "thread", action="add", id=thread, type="progress", content=words, as_client="chat"
    )


def heard(sandbox: DaemonSandbox, thread: str) -> list[str]:
    """Return the entries of a thread."""
    found = sandbox.call("thread", action="get", id=thread)
    return [entry["content"] for entry in found["result"]["entries"]]


def warnings(sandbox: DaemonSandbox) -> dict[str, str]:
    return {item["code"]: item["text"] for item in sandbox.request("status")["result"]["warnings"]}
