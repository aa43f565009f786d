"""Every kind of file, on a full, a read-only, a foreign and a failing disk.

The old file stays byte for byte, nothing is left beside it, and the failure is reported. The daemon
lives and does not spin, and it goes on by itself once the disk does.
"""

import math
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import conducted
import left
from conftest import House, contents_below, files_below, timestamp, wait_for
from faulty import ERRORS, FILLING, Disk

# Retries as they are, but for those that begin with a minute; looks and copies come often.
QUICK = f"""{conducted.QUICK}
import handoffd.triggers.session_liveness
handoffd.triggers.session_liveness.RETRY_SECONDS = 1.0
import handoffd.store.core
handoffd.store.core.COPY_SECONDS = 0.5
handoffd.app.CORE_LOOK_SECONDS = 0.5
"""


@pytest.fixture(scope="module")
def broken(tmp_path_factory) -> Iterator[tuple[House, Disk]]:
    """A running daemon whose disk can be made to fail, with a log file."""
    directory = tmp_path_factory.mktemp("faulty")
    with tempfile.TemporaryDirectory(prefix="ho-", dir="/tmp") as runtime:
        house, disk = House(directory, Path(runtime)), Disk(directory)
        house.environment |= disk.environment
        house.transcripts.mkdir(parents=True)
        conducted.run_after(house, QUICK).start()
        yield house, disk
        house.kill()


@dataclass(frozen=True)
class Kind:
    """A kind of file: its place, a cause to write it anew, and a check that it was written."""

    part: str
    old: str
    warning: str
    again: Callable
    done: Callable
    # A database is open already, and is never opened or named anew.
    errors: tuple[str, ...] = tuple(ERRORS)
    begin: Callable = lambda house, project, session: None
    # A command that writes the file, too.
    command: tuple[str, ...] = ()


def speak(house, project, session):
    session.prompt("And now for the second of the two")


def is_spoken(house, project, session):
    return "second of the two" in house.yaml(project)


def briefs(house):
    found = contents_below(house.state / "briefs").items()
    return [text.decode() for path, text in found if not path.name.startswith(".")]


def is_brief(house, project, session):
    return any(str(project) in text and "second of the two" in text for text in briefs(house))


def has_brief(house, project, session):
    wait_for(lambda: any(str(project) in text for text in briefs(house)))


def is_known(house, project, session):
    return "second of the two" in house.document(project)["now"]


def leave(house, project, session):
    session.edit(f"{project}/src/a.py", timestamp=timestamp(120))
    wait_for(lambda: left.handoffs(house, project), what="there is a handoff")


def leave_more(house, project, session):
    session.edit(f"{project}/src/b.py", timestamp=timestamp(100))


def is_left(house, project, session):
    return "b.py" in left.text(house, project)


def has_track(house, project, session):
    conducted.track(project)
    assert 0 == house.handoff("create", cwd=project).returncode


def ask_for_a_record(house, project, session):
    house.handoff("create", cwd=project)


def is_recorded(house, project, session):
    if len(conducted.records(project)) < 2:
        house.handoff("create", cwd=project)
    return len(conducted.rows(project)) >= 2 and conducted.assert_whole(project)


def nothing(house, project, session):
    return None


def is_copied(house, project, session):
    return time.time() - (house.state / "core.db.backup").stat().st_mtime < 3


KINDS = {
    "handoff.yaml": Kind(
        "{project}/.flow-guardian/", "{project}/.flow-guardian/*", "write_failed", speak, is_spoken,
        command=("save", "--hypothesis", "x"),
    ),
    "brief": Kind(
        "/briefs/", "{state}/briefs/*", "write_failed", speak, is_brief, begin=has_brief,
    ),
    "handoff": Kind(
        "/.claude/handoffs/", "{home}/.claude/handoffs/*/*", "contract_failed", leave_more, is_left,
        begin=leave, command=("close", "--done", "x"),
    ),
    "track record": Kind(
        "{project}/conductor/", "{project}/conductor/handoffs/*/*", "", ask_for_a_record,
        is_recorded, begin=has_track, command=("create",),
    ),
    "state.db": Kind("/state.db", "{state}/state.db", "store_failed", speak, is_known, FILLING),
    "core.db": Kind(
        "/core.db-wal", "{state}/core.db", "write_failed", speak, is_spoken, FILLING, command=("save", "--hypothesis", "x"),
    ),
    "copy of core.db": Kind(
        "core.db.backup", "{state}/core.db.backup", "copy_failed", nothing, is_copied,
    ),
}  # fmt: skip


def contents(house, project, pattern) -> dict[str, bytes]:
    pattern = pattern.format(home=house.home, state=house.state, project=project)
    found = Path("/").glob(pattern.lstrip("/"))
    return {str(p): p.read_bytes() for p in found if not p.name.endswith("handoffd-tmp")}


def warnings(house) -> str:
    return " ".join(w["code"] for w in house.request("status")["result"]["warnings"])


# Some of them in `make test`, all of them in `make faults`.
QUICK_ONES = {(kind, "ENOSPC") for kind in ("handoff.yaml", "handoff", "state.db")}
CASES = [
    pytest.param(kind, error, marks=() if (kind, error) in QUICK_ONES else pytest.mark.long)
    for kind in KINDS
    for error in KINDS[kind].errors
]


@pytest.mark.parametrize(("kind", "error"), CASES)
def test_a_disk_that_refuses(broken, kind, error, record_property):
    """A file that cannot be written stays as it was.

    That is reported, retried slowly, and succeeds.
    """
    house, disk = broken
    what = KINDS[kind]
    project = house.project(re.sub(r"\W", "-", f"{kind}-{error}"))
    session = house.session(project)
    session.prompt("Begin with the first of the two", timestamp=timestamp(121))
    wait_for(lambda: "first of the two" in house.yaml(project))
    what.begin(house, project, session)
    wait_for(lambda: not warnings(house), what="all is well")
    before = contents(house, project, what.old)
    disk.fail(error, what.part.format(project=project))
    try:
        what.again(house, project, session)
        wait_for(lambda: what.warning in warnings(house) and disk.failed, what="it is said")
        told = house.handoff(*what.command, cwd=project) if what.command else None
        house.alive()
        if kind != "copy of core.db":  # which is replaced all the time
            assert before == contents(house, project, what.old)
        assert disk.failed < 30
    finally:
        disk.mend()
    since = time.monotonic()
    wait_for(lambda: what.done(house, project, session), 65, "it goes on by itself")
    recovered = time.monotonic() - since
    wait_for(lambda: not warnings(house), 65, "nothing is said any more")
    left = [p for p in files_below(house.state) if p.name.endswith("handoffd-tmp")]
    assert [] == [*left, *conducted.temporary(project)]
    if told is not None:
        assert 1 == told.returncode
        assert re.search("space|read-only|yours|failing", told.stderr), told.stderr
    record_property("figure", f"{kind}: back within {math.ceil(recovered)} s")
