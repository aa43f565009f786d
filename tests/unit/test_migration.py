"""Migration from the contract's first encoding to the second: files and their times are kept."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from handoff.common.errors import HandoffError
from handoffd.contract import handoff_directory, migration
from handoffd.contract.migration import MigrationStep
from handoffd.fs import files

OLD, NEW = "-home-u-my_app", "-home-u-my-app"


@pytest.fixture
def base(tmp_path) -> Path:
    path = tmp_path / "handoffs"
    path.mkdir()
    return path


def put(path: Path, text: str = "text", time_ns: int = 1_700_000_000_123_456_789) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.utime(path, ns=(time_ns, time_ns))
    return path


def tree(base: Path) -> dict[str, tuple[str, int] | str]:
    """Return every visible file with its text and time, and every link."""
    found = {}
    for path in sorted(base.rglob("*")):
        name = str(path.relative_to(base))
        if path.is_symlink():
            found[name] = f"-> {os.readlink(path)}"
        elif path.is_file() and not path.name.startswith("."):
            found[name] = (path.read_text(), path.stat().st_mtime_ns)
    return found


def migrate(base: Path) -> list[MigrationStep]:
    report = migration.migrate(str(base))
    assert [] == report.problems
    return report.steps


def said(base: Path, *, dry_run: bool = False) -> list[str]:
    return migration.run(str(base), dry_run=dry_run, as_json=False)[1].splitlines()


@pytest.mark.seed("002", "Existing directories migrated in place.")
@pytest.mark.seed("002", "Provide migration path for existing handoffs")
def test_rename(base):
    """Without a v2 directory the v1 directory is renamed with its content, and a link remains."""
    put(base / OLD / "a.md", "a", 111)
    put(base / OLD / "notes/plan.txt", "p", 222)

    steps = migrate(base)

    assert [MigrationStep("rename", OLD, NEW), MigrationStep("link", OLD, NEW)] == steps
    assert {
        f"{NEW}/a.md": ("a", 111),
        f"{NEW}/notes/plan.txt": ("p", 222),
        OLD: f"-> {NEW}",
    } == tree(base)
    assert "a" == (base / OLD / "a.md").read_text()


def test_again_is_nothing(base):
    """A second run finds nothing to do, says so, and changes nothing."""
    put(base / OLD / "a.md")
    migrate(base)
    before = tree(base)

    assert ["Nothing to migrate."] == said(base)
    assert before == tree(base)


@pytest.mark.seed("002", "Existing directories migrated in place.")
def test_merge(base):
    """With both directories each file moves with its time, and none is replaced."""
    put(base / OLD / "a.md", "old a", 1)
    put(base / OLD / "b.md", "old b", 2)
    put(base / OLD / "b-2.md", "old b-2", 3)
    put(base / NEW / "b.md", "new b", 4)
    put(base / NEW / "c.md", "new c", 5)

    migrate(base)

    assert {
        OLD: f"-> {NEW}",
        f"{NEW}/a.md": ("old a", 1),
        f"{NEW}/b.md": ("new b", 4),
        f"{NEW}/b-2.md": ("old b-2", 3),
        f"{NEW}/b-3.md": ("old b", 2),
        f"{NEW}/c.md": ("new c", 5),
    } == tree(base)


@pytest.mark.parametrize(("old", "new"), [(1, 2), (2, 1), (2, 2)])
def test_identical_files_become_one(base, old, new):
    """Of two identical files the later time is kept."""
    put(base / OLD / "a.md", "same", old)
    put(base / NEW / "a.md", "same", new)

    migrate(base)

    assert {OLD: f"-> {NEW}", f"{NEW}/a.md": ("same", 2)} == tree(base)


def test_other_things_stay_and_are_said(base):
    """Other files stay in the v1 directory, which becomes no link; a second run changes nothing."""
    put(base / OLD / "a.md")
    put(base / OLD / "notes.txt")
    put(base / OLD / ".hidden")
    os.mkfifo(base / OLD / "pipe.md")
    (base / OLD / "link.md").symlink_to("/etc/passwd")
    (base / OLD / "sub.md").mkdir()
    (base / NEW).mkdir()
    left = [".hidden", "link.md", "notes.txt", "pipe.md", "sub.md"]

    steps = migrate(base)

    assert [MigrationStep("move", f"{OLD}/a.md", f"{NEW}/a.md")] == steps[:1]
    assert [MigrationStep("keep", f"{OLD}/{name}") for name in left] == steps[1:]
    assert left == sorted(os.listdir(base / OLD))
    assert steps[1:] == migrate(base)
    assert f"Left {OLD}/notes.txt where it is: it is no handoff." in said(base)


def test_second_index_stays(base):
    """An index is not renamed, because under another name it would pass for a handoff."""
    put(base / OLD / "LEDGER.md", "one")
    put(base / OLD / "README.md", "readme")
    put(base / NEW / "LEDGER.md", "two")

    migrate(base)

    assert ["LEDGER.md"] == os.listdir(base / OLD)
    assert {"LEDGER.md", "README.md"} == set(os.listdir(base / NEW)) - {handoff_directory.LOCK_NAME}


@pytest.mark.parametrize("both", [True, False])
def test_our_leftovers_go(base, both):
    """A lock and an unfinished file of ours do not keep a v1 directory alive."""
    put(base / OLD / "a.md")
    put(base / OLD / handoff_directory.LOCK_NAME, "")
    put(base / OLD / f".a.md.1234{files.TEMPORARY_SUFFIX}", "half")
    if both:
        put(base / NEW / "b.md")

    migrate(base)

    assert (base / OLD).is_symlink()
    assert not list((base / NEW).glob(f"*{files.TEMPORARY_SUFFIX}"))


def test_empty_directory_becomes_a_link(base):
    """An empty v1 directory beside a v2 directory becomes a link."""
    (base / OLD).mkdir()
    put(base / NEW / "a.md")

    assert [MigrationStep("link", OLD, NEW)] == migrate(base)


def test_siblings_are_left_alone(base):
    """Directories that encode no path, v2 directories, links and files are left alone."""
    put(base / "email/thread.md")
    put(base / "stray_file.md")
    put(base / "-stray_file.md")
    put(base / "-home-u-app/a.md")
    put(base / "-home-u-app.bak/a.md")
    (base / "-old_link").symlink_to("email")
    before = tree(base)

    assert ["Nothing to migrate."] == said(base)
    assert before == tree(base)
    assert not (base / handoff_directory.LOCK_NAME).exists()


def test_no_directory_at_all(tmp_path):
    """Without any handoffs there is nothing to migrate, and nothing is created."""
    assert ["Nothing to migrate."] == said(tmp_path / "none")
    assert [] == os.listdir(tmp_path)


def test_dry_run_says_what_a_run_does(base):
    """A dry run changes nothing and names exactly the steps of the run."""
    for number, old in enumerate(("-a_b", "-a b", "-a@b")):
        put(base / old / "x.md", old, number)
        put(base / old / "same.md", "same", number)
        put(base / old / f"{number}.md", "own", number)
    put(base / "-c_d/x.md")
    (base / "-c-d").mkdir()
    before = tree(base)

    planned = said(base, dry_run=True)
    assert before == tree(base)
    assert not (base / handoff_directory.LOCK_NAME).exists()
    done = said(base)

    wording = {"Would rename": "Renamed", "Would move": "Moved", "Would link": "Linked",
               "Would remove": "Removed"}  # fmt: skip
    for old, new in wording.items():
        planned = [line.replace(old, new) for line in planned]
    assert planned == done
    assert ["Nothing to migrate."] == said(base)
    assert {"x.md", "x-2.md", "x-3.md", "same.md", "0.md", "1.md", "2.md"} == {
        path.name for path in (base / "-a-b").glob("*.md")
    }


def test_json(base):
    """With --json the steps, the problems and the exit code are data, for any file name."""
    odd = os.fsdecode(b"-a\xff\n\x1b[31m_")
    put(base / odd / "a.md")

    code, text = migration.run(str(base), dry_run=True, as_json=True)
    data = json.loads(text)

    assert (0, True, []) == (code, data["dry_run"], data["problems"])
    assert ["rename", "link"] == [step["action"] for step in data["steps"]]
    assert odd == data["steps"][0]["source"]


def test_odd_names(base):
    """Names with non-UTF-8 bytes, newlines and escapes are migrated, and printed harmlessly."""
    odd = os.fsdecode(b"-a\xff\n\x1b[31m_")
    put(base / odd / "a.md")

    code, text = migration.run(str(base), dry_run=False, as_json=False)

    assert (0, 2) == (code, len(text.splitlines()))
    assert text.isascii()
    assert "\x1b" not in text
    assert ["a.md"] == os.listdir(base / "-a----31m-")
    assert "-a----31m-" == os.readlink(base / odd)


@pytest.mark.parametrize("kind", ["file", "link", "dangling"])
def test_target_in_the_way(base, kind):
    """A file or link in place of the v2 directory is an error with a remedy, and nothing moves."""
    put(base / OLD / "a.md")
    put(base / "-x_y/b.md")
    if kind == "file":
        put(base / NEW)
    else:
        (base / NEW).symlink_to(OLD if kind == "link" else "nowhere")

    code, text = migration.run(str(base), dry_run=False, as_json=False)

    assert 1 == code
    assert f"{base}/{NEW} is a symlink or no directory; nothing was moved there." in text
    assert "  -> Move it aside, and run `handoff migrate` again; nothing is lost." in text
    assert ["a.md"] == os.listdir(base / OLD)
    assert (base / "-x_y").is_symlink()


def test_base_is_no_directory(tmp_path):
    """A file in place of the base directory is an error."""
    put(tmp_path / "handoffs")

    with pytest.raises(HandoffError, match="cannot be read: Not a directory"):
        migration.migrate(str(tmp_path / "handoffs"))


def test_busy_directory(base, monkeypatch):
    """While another writer holds the v2 directory's lock, its files stay, with a message."""
    monkeypatch.setattr(migration, "WAIT_SECONDS", 0.01)
    put(base / OLD / "a.md")
    (base / NEW).mkdir()
    with (
        files.directory(str(base), NEW) as handle,
        files.locked(handle, handoff_directory.LOCK_NAME, 1),
    ):
        report = migration.migrate(str(base))

    assert ["Another program holds .handoffd.lock."] == [p["text"] for p in report.problems]
    assert ["a.md"] == os.listdir(base / OLD)


def test_two_at_once(base, monkeypatch):
    """A second migration waits for the first, and gives up with a clear message."""
    monkeypatch.setattr(migration, "WAIT_SECONDS", 0.01)
    put(base / OLD / "a.md")
    with (
        files.directory(str(base)) as handle,
        files.locked(handle, handoff_directory.LOCK_NAME, 1),
        pytest.raises(HandoffError, match="Another program holds"),
    ):
        migration.migrate(str(base))

    assert ["a.md"] == os.listdir(base / OLD)


@pytest.mark.parametrize("what", ["base", "old", "new"])
def test_no_permission(what):
    """Without permission to write there is a clear message, and every file stays."""
    place = Path(tempfile.mkdtemp(prefix="ho-", dir="/tmp"))
    base = place / "handoffs"
    put(base / OLD / "a.md")
    put(base / NEW / "b.md")
    chosen = {"base": base, "old": base / OLD, "new": base / NEW}[what]
    is_root = os.geteuid() == 0
    for path in (place, *place.rglob("*")):
        os.chown(path, 65534 if is_root else -1, -1)
    before = tree(base)
    chosen.chmod(0o500)
    try:
        if is_root:
            os.seteuid(65534)
        code, text = 1, ""
        try:
            code, text = migration.run(str(base), dry_run=False, as_json=False)
        except HandoffError as problem:
            text = str(problem)
    finally:
        if is_root:
            os.seteuid(0)
        chosen.chmod(0o700)
    after = tree(base)
    shutil.rmtree(place)

    assert 1 == code
    assert "Permission denied." in text
    assert "nothing is lost" in text
    assert set(before.values()) == set(after.values())


def test_without_hard_links(base, monkeypatch):
    """On a file system without hard links files move by rename, and none is replaced."""
    put(base / OLD / "a.md", "old", 1)
    put(base / OLD / "b.md", "b", 2)
    put(base / NEW / "a.md", "new", 3)

    def refuse(*_words, **_named):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    migrate(base)

    assert {
        OLD: f"-> {NEW}",
        f"{NEW}/a.md": ("new", 3),
        f"{NEW}/a-2.md": ("old", 1),
        f"{NEW}/b.md": ("b", 2),
    } == tree(base)


def test_file_that_comes_between(base, monkeypatch):
    """A file that another program writes during the migration is found and moved, too."""
    put(base / OLD / "a.md", "a", 1)
    put(base / NEW / "b.md", "b", 2)
    remove = files.remove_directory

    def late(handle, name):
        monkeypatch.setattr(files, "remove_directory", remove)
        put(base / OLD / "late.md", "late", 3)
        return remove(handle, name)

    monkeypatch.setattr(files, "remove_directory", late)
    migrate(base)

    assert ("late", 3) == tree(base)[f"{NEW}/late.md"]
    assert (base / OLD).is_symlink()


KILLED_AT = """
import os, sys, signal
from handoffd.contract import migration
base, wanted = sys.argv[1], int(sys.argv[2])
count = 0
def stop(event, arguments):
    global count
    if event in ("os.rename", "os.link", "os.remove", "os.rmdir", "os.symlink", "os.utime"):
        if count == wanted:
            os.kill(os.getpid(), signal.SIGKILL)
        count += 1
sys.addaudithook(stop)
migration.migrate(base)
"""


def killed(base: Path, step: int) -> bool:
    """Kill a migration just before its n-th change; return True if there was one."""
    done = subprocess.run(
        [sys.executable, "-c", KILLED_AT, str(base), str(step)],
        env={"PYTHONPATH": os.pathsep.join(sys.path), "HOME": str(base)},
        check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode != 0


@pytest.mark.parametrize("both", [True, False])
@pytest.mark.seed("002", "Provide migration path for existing handoffs")
def test_killed_at_any_point(base, tmp_path, both):
    """After a kill before any change a second run ends in the same state as an unbroken run."""

    def prepare(place: Path) -> None:
        put(place / OLD / "a.md", "old a", 1)
        put(place / OLD / "same.md", "same", 2)
        put(place / OLD / handoff_directory.LOCK_NAME, "")
        put(place / "-a_a/z.md", "z", 3)
        if both:
            put(place / NEW / "a.md", "new a", 4)
            put(place / NEW / "same.md", "same", 1)

    prepare(base)
    migrate(base)
    right = tree(base)
    step = 0
    while True:
        place = tmp_path / str(step)
        prepare(place)
        if not killed(place, step):
            break
        migrate(place)
        assert right == tree(place), step
        assert not [n for n in os.listdir(place) if n == migration.JOURNAL], step
        step += 1

    assert step > 8


def test_foreign_journal_is_harmless(base):
    """A journal that names anything but a v1 directory is ignored."""
    put(base / migration.JOURNAL, "../../etc")
    put(base / OLD / "a.md")

    migrate(base)

    assert (base / OLD).is_symlink()


# Findings of doctor


def findings(base: Path) -> list[tuple[str, str, str]]:
    return [tuple(item.values()) for item in migration.findings(str(base))]


def test_doctor_names_what_waits(base):
    """Directories to migrate are a note with the command; beyond three they are counted."""
    for name in ("-a_1", "-a_2", "-a_3", "-a_4"):
        (base / name).mkdir()

    ((level, text, remedy),) = findings(base)

    assert ("note", "Run: handoff migrate") == (level, remedy)
    assert text.endswith("-a_1, -a_2, -a_3 and 1 more")


def test_doctor_does_not_promise_what_migrate_cannot_do(base):
    """A directory with only other files does not get the remedy `handoff migrate`."""
    put(base / OLD / "notes.txt")
    (base / NEW).mkdir()

    ((level, text, remedy),) = findings(base)

    assert "note" == level
    assert OLD in text
    assert not remedy.startswith("Run: handoff migrate")


def test_doctor_judges_links(base):
    """A correct link is fine; one to nowhere or to another directory has a remedy."""
    put(base / OLD / "a.md")
    migrate(base)
    (base / "-gone_1").symlink_to("-gone-1")
    (base / "-else_where").symlink_to(NEW)
    (base / "-else-where").mkdir()

    found = findings(base)

    assert ("ok", "links for readers with the contract's first encoding: 1", "") == found[0]
    assert [
        ("note", "the link -else_where does not lead to -else-where",
         f"Make it anew: ln -sfn -- -else-where {base}/-else_where"),
        ("note", "the link -gone_1 does not lead to -gone-1", f"Remove it: rm {base}/-gone_1"),
    ] == found[1:]  # fmt: skip
    subprocess.run(found[1][2].removeprefix("Make it anew: "), shell=True, check=True)
    assert "ok" == findings(base)[0][0]
    assert 2 == len(findings(base))


def test_doctor_is_quiet_where_all_is_well(base):
    """With only v2 directories there is no finding."""
    put(base / NEW / "a.md")

    assert [] == findings(base)


def test_commands(sandbox):
    """Without a daemon doctor names the directory, migrate moves it, check-contract agrees."""
    base = sandbox.home / ".claude/handoffs"
    put(base / OLD / "a.md", "# Handoff — 2026-01-01\n\nsession_id: s\npurpose: p\n\n## Done\n")

    doctor = sandbox.handoff("doctor").stdout
    before = sandbox.handoff("check-contract", "~/.claude/handoffs")
    planned = sandbox.handoff("migrate", "--dry-run").stdout
    done = sandbox.handoff("migrate")
    after = sandbox.handoff("check-contract", str(base))

    assert re.search(rf"first version: {OLD}\n +-> Run: handoff migrate\n", doctor)
    assert f"Would rename {OLD} to {NEW}.\n" in planned
    assert (0, f"Renamed {OLD} to {NEW}.\nLinked {OLD} to {NEW}.\n") == (
        done.returncode,
        done.stdout,
    )
    assert (1, 0) == (before.returncode, after.returncode)
    assert "Nothing to migrate.\n" == sandbox.handoff("migrate").stdout
    assert "ok    links for readers" in sandbox.handoff("doctor").stdout


def test_configured_place(sandbox):
    """`[contract] directory` sets the base directory."""
    config = sandbox.home / ".config/handoffd/config.toml"
    put(config, '[contract]\ndirectory = "~/elsewhere"\n')
    put(sandbox.home / "elsewhere" / OLD / "a.md")

    sandbox.handoff("migrate")

    assert (sandbox.home / "elsewhere" / OLD).is_symlink()
