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

import conductor_projects
import written_handoffs
from conftest import DaemonSandbox, contents_below, files_below, timestamp, wait_for
from failing_disk import ERRORS, FILLING, Disk

# Retries as they are, but for those that begin with a minute; looks and copies come often.
QUICK = f"""{conductor_projects.QUICK}
import handoffd.triggers.session_liveness
handoffd.triggers.session_liveness.RETRY_SECONDS = 1.0
import handoffd.store.core
handoffd.store.core.COPY_SECONDS = 0.5
handoffd.app.CORE_LOOK_SECONDS = 0.5
"""


@pytest.fixture(scope="module")
def broken(tmp_path_factory) -> Iterator[tuple[DaemonSandbox, Disk]]:
    """A running daemon whose disk can be made to fail, with a log file."""
    directory = tmp_path_factory.mktemp("failing")
    with tempfile.TemporaryDirectory(prefix="ho-", dir="/tmp") as runtime:
        sandbox, disk = DaemonSandbox(directory, Path(runtime)), Disk(directory)
        sandbox.environment |= disk.environment
        sandbox.transcripts.mkdir(parents=True)
        conductor_projects.run_after(sandbox, QUICK).start()
        yield sandbox, disk
        sandbox.kill()


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
    begin: Callable = lambda sandbox, project, session: None
    # A command that writes the file, too.
    command: tuple[str, ...] = ()


def speak(sandbox, project, session):
    session.prompt("And now for the second of the two")


def is_spoken(sandbox, project, session):
    return "second of the two" in sandbox.yaml(project)


def briefs(sandbox):
    found = contents_below(sandbox.state / "briefs").items()
    return [text.decode() for path, text in found if not path.name.startswith(".")]


def is_brief(sandbox, project, session):
    return any(str(project) in text and "second of the two" in text for text in briefs(sandbox))


def has_brief(sandbox, project, session):
    wait_for(lambda: any(str(project) in text for text in briefs(sandbox)))


def is_known(sandbox, project, session):
    return "second of the two" in sandbox.document(project)["now"]


def leave(sandbox, project, session):
    session.edit(f"{project}/src/a.py", timestamp=timestamp(120))
    wait_for(lambda: written_handoffs.handoffs(sandbox, project), what="there is a handoff")


def leave_more(sandbox, project, session):
    session.edit(f"{project}/src/b.py", timestamp=timestamp(100))


def is_left(sandbox, project, session):
    return "b.py" in written_handoffs.text(sandbox, project)


def has_track(sandbox, project, session):
    conductor_projects.track(project)
    assert 0 == sandbox.handoff("create", cwd=project).returncode


def ask_for_a_record(sandbox, project, session):
    sandbox.handoff("create", cwd=project)


def is_recorded(sandbox, project, session):
    if len(conductor_projects.records(project)) < 2:
        sandbox.handoff("create", cwd=project)
    return len(conductor_projects.rows(project)) >= 2 and conductor_projects.assert_whole(project)


def nothing(sandbox, project, session):
    return None


def is_copied(sandbox, project, session):
    return time.time() - (sandbox.state / "core.db.backup").stat().st_mtime < 3


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


def contents(sandbox, project, pattern) -> dict[str, bytes]:
    pattern = pattern.format(home=sandbox.home, state=sandbox.state, project=project)
    found = Path("/").glob(pattern.lstrip("/"))
    return {str(p): p.read_bytes() for p in found if not p.name.endswith("handoffd-tmp")}


def warnings(sandbox) -> str:
    return " ".join(w["code"] for w in sandbox.request("status")["result"]["warnings"])


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
    sandbox, disk = broken
    what = KINDS[kind]
    project = sandbox.project(re.sub(r"\W", "-", f"{kind}-{error}"))
    session = sandbox.session(project)
    session.prompt("Begin with the first of the two", timestamp=timestamp(121))
    wait_for(lambda: "first of the two" in sandbox.yaml(project))
    what.begin(sandbox, project, session)
    wait_for(lambda: not warnings(sandbox), what="all is well")
    before = contents(sandbox, project, what.old)
    disk.fail(error, what.part.format(project=project))
    try:
        what.again(sandbox, project, session)
        wait_for(lambda: what.warning in warnings(sandbox) and disk.failed, what="it is said")
        told = sandbox.handoff(*what.command, cwd=project) if what.command else None
        sandbox.alive()
        if kind != "copy of core.db":  # which is replaced all the time
            assert before == contents(sandbox, project, what.old)
        assert disk.failed < 30
    finally:
        disk.mend()
    since = time.monotonic()
    wait_for(lambda: what.done(sandbox, project, session), 65, "it goes on by itself")
    recovered = time.monotonic() - since
    wait_for(lambda: not warnings(sandbox), 65, "nothing is said any more")
    left = [p for p in files_below(sandbox.state) if p.name.endswith("handoffd-tmp")]
    assert [] == [*left, *conductor_projects.temporary(project)]
    if told is not None:
        assert 1 == told.returncode
        assert re.search("space|read-only|yours|failing", told.stderr), told.stderr
    record_property("figure", f"{kind}: back within {math.ceil(recovered)} s")
