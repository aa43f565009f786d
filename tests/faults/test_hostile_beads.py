"""Repositories with a hostile .beads, and the real bd of both lines: nothing of it is run.

Each test plants something that leaves a mark outside of the project's own .beads, or brings the
text of another file into an issue. Then it makes every call to Beads that the daemon makes.
"""

import json
import os
import shutil
import sqlite3
import subprocess
from pathlib import Path

import pytest

from beads_world import fresh, required
from handoffd.links.beads import BeadsError

SECRET = "the-words-of-another-file"
LINES = ("classic", "current")
PROGRAM = "#!/bin/sh\necho $0 >>{canary}/ran\n"


class HostileProject:
    """A project of a line, and around it files that must stay as they are."""

    def __init__(self, line: str, place: Path, factory: pytest.TempPathFactory):
        self.line, self.place = line, place
        (place / "project").mkdir()
        self.world = fresh(f"real {line}", place / "project", factory)
        self.epic = self.world.epic()
        self.child = self.world.child(self.epic)
        self.beads = self.world.directory
        self.canary, self.other = place / "canary", place / "other"
        self.canary.mkdir()
        shutil.copytree(self.beads, self.other / ".beads", symlinks=True)
        (place / "secret").write_text(SECRET)
        (self.other / ".beads/issues.jsonl").write_text(json.dumps({"id": "x", "title": SECRET}))

    @property
    def dolt(self) -> Path:
        return self.beads / "embeddeddolt/shop"

    def program(self, path: Path) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(PROGRAM.format(canary=self.canary))
        path.chmod(0o755)
        return path

    def sql(self, *statements: str) -> None:
        """Change the database as its maker does."""
        if self.line == "classic":
            with sqlite3.connect(self.beads / "beads.db") as connection:
                for statement in statements:
                    connection.execute(statement)
            connection.close()
            return
        tool = required("HANDOFFD_TEST_DOLT_SQL", "no program that runs SQL on a database of Dolt")
        subprocess.run(
            [tool, self.dolt.parent, "shop"], input="\n".join(statements), text=True, check=True,
            env=self.world.environment, capture_output=True, timeout=60,
        )  # fmt: skip

    def outside(self) -> dict[str, str]:
        """Return all files around the project's .beads."""
        found = {}
        for directory, names, files in os.walk(self.place):
            names[:] = [name for name in names if Path(directory, name) != self.beads]
            for path in (Path(directory, name) for name in (*names, *files)):
                is_file = path.is_file() and not path.is_symlink()
                found[str(path)] = f"{path.lstat().st_mode} {path.read_bytes() if is_file else ''}"
        return found

    def ask_everything(self) -> str:
        """Make every call to Beads that the daemon makes, and return all answers."""
        beads = self.world.beads
        asked = (
            beads.exists, beads.stamp, beads.program, beads.home, beads.read_issues,
            lambda: beads.show(self.epic), lambda: beads.ready(self.child),
            lambda: beads.ready(self.epic), lambda: beads.notes(self.epic),
            lambda: beads.append_notes(self.epic, "ours"), lambda: beads.notes(self.epic),
            lambda: beads.append_notes(self.child, "ours, too"), beads.read_issues,
        )  # fmt: skip
        told = []
        for ask in asked:
            try:
                told.append(repr(ask()))
            except BeadsError as problem:
                told.append(str(problem))
        return "\n".join(told)


def hooks(hostile: HostileProject) -> None:
    names = ("create", "update", "close", "list", "show", "message")
    for name in (*(f"on_{name}" for name in names), "pre-commit", "post-checkout"):
        hostile.program(hostile.beads / "hooks" / name)


def config(hostile: HostileProject) -> None:
    evil = hostile.program(hostile.world.root / "evil")
    with (hostile.beads / "config.yaml").open("a") as stream:
        for name in ("editor", "pager", "validator", "sync-command", "hook", "ai.command", "on_update",
                     "git.ssh-command", "export.command", "dolt.path", "actor-command"):  # fmt: skip
            stream.write(f'\n"{name}": "{evil}"\n')
        stream.write(
            f'db: "{hostile.other}/.beads/beads.db"\nno-db: true\nsync.remote: "file://{hostile.canary}"\n'
            f'export.auto: true\nexport.path: "{hostile.canary}/export.jsonl"\ndolt.auto-push: true\n'
            f'backup.enabled: true\nbackup.path: "{hostile.canary}"\ndolt.shared-server: true\n'
            f'routing.mode: explicit\nrouting.default: "{hostile.other}"\njson: false\n'
            f'hooks-dir: "{hostile.beads}/hooks"\ndirectory: "{hostile.other}"\n'
        )


def routes(hostile: HostileProject) -> None:
    route = {"prefix": "shop-", "path": f"{hostile.other}"}
    (hostile.beads / "routes.jsonl").write_text(json.dumps(route) + "\n")


def redirect(hostile: HostileProject) -> None:
    (hostile.beads / "redirect").write_text(f"{hostile.other}/.beads\n")


def env(hostile: HostileProject) -> None:
    hostile.program(hostile.world.root / "bin/git")
    names = {
        "PATH": f"{hostile.world.root}/bin", "LD_PRELOAD": f"{hostile.world.root}/evil.so",
        "BEADS_DIR": f"{hostile.other}/.beads", "BEADS_DB": f"{hostile.other}/.beads/beads.db",
        "EDITOR": f"{hostile.world.root}/bin/git", "PAGER": f"{hostile.world.root}/bin/git",
        "GIT_SSH_COMMAND": f"{hostile.world.root}/bin/git", "HOME": str(hostile.canary),
        "BD_DOLT_AUTO_PUSH": "true", "BD_OTEL_METRICS_URL": "http://127.0.0.1:9/",
        "BEADS_JSONL": f"{hostile.canary}/lines.jsonl", "TMPDIR": str(hostile.canary),
    }  # fmt: skip
    (hostile.beads / ".env").write_text("".join(f"{key}={value}\n" for key, value in names.items()))


def metadata(hostile: HostileProject) -> None:
    found = json.loads((hostile.beads / "metadata.json").read_text())
    found |= {
        "database": f"{hostile.other}/.beads/beads.db", "jsonl_export": f"{hostile.canary}/lines.jsonl",
        "dolt_data_dir": f"{hostile.other}/.beads/embeddeddolt", "dolt_server_host": "127.0.0.1",
        "dolt_server_port": 9, "dolt_server_socket": f"{hostile.canary}/socket",
        "project_id": "another",
    }  # fmt: skip
    (hostile.beads / "metadata.json").write_text(json.dumps(found))


def server(hostile: HostileProject) -> None:
    metadata(hostile)
    found = json.loads((hostile.beads / "metadata.json").read_text())
    (hostile.beads / "metadata.json").write_text(json.dumps({**found, "dolt_mode": "server"}))


def formulas(hostile: HostileProject) -> None:
    for name in ("formulas", "molecules", "templates"):
        (hostile.beads / name).mkdir()
        text = json.dumps({"formula": "x", "steps": [{"id": "a", "title": SECRET}]})
        (hostile.beads / name / "x.formula.json").write_text(text)
    record = {"id": "mol-x", "title": SECRET, "issue_type": "epic", "is_template": True}
    (hostile.beads / "molecules.jsonl").write_text(json.dumps(record) + "\n")


def linked_database(hostile: HostileProject) -> None:
    name = "beads.db" if hostile.line == "classic" else "embeddeddolt"
    shutil.move(hostile.beads / name, hostile.place / "away")
    (hostile.beads / name).symlink_to(hostile.other / ".beads" / name)


def linked_lines(hostile: HostileProject) -> None:
    (hostile.beads / "issues.jsonl").unlink(missing_ok=True)
    (hostile.beads / "issues.jsonl").symlink_to(hostile.other / ".beads/issues.jsonl")


def linked_wal(hostile: HostileProject) -> None:
    for end in ("-wal", "-shm", "-journal"):
        (hostile.beads / f"beads.db{end}").symlink_to(hostile.place / "secret")


def sqlite_triggers(hostile: HostileProject) -> None:
    """SQLite's own ways out of a database, as far as they work in a trigger or a view."""
    hostile.sql(
        "CREATE TRIGGER t AFTER UPDATE ON issues BEGIN"
        f" SELECT load_extension('{hostile.world.root}/evil.so'), writefile('{hostile.canary}/w', 'x'),"
        f" edit('x', '{hostile.world.root}/evil'), readfile('{hostile.place}/secret'); END",
        "CREATE TRIGGER u AFTER INSERT ON events BEGIN"
        f" UPDATE issues SET title = readfile('{hostile.place}/secret'); END",
        f"CREATE VIEW ready AS SELECT readfile('{hostile.place}/secret') AS id",
    )


def sqlite_garbage(hostile: HostileProject) -> None:
    path = hostile.beads / "beads.db"
    data = bytearray(path.read_bytes())
    data[100:4096:7] = b"\xff" * len(data[100:4096:7])
    path.write_bytes(data)


def linked_tables(hostile: HostileProject) -> None:
    noms = hostile.dolt / ".dolt/noms"
    shutil.move(noms, hostile.place / "away")
    noms.symlink_to(hostile.other / ".beads/embeddeddolt/shop/.dolt/noms")


def linked_inner(hostile: HostileProject) -> None:
    shutil.move(hostile.dolt, hostile.place / "away")
    hostile.dolt.symlink_to(hostile.other / ".beads/embeddeddolt/shop")


def linked_temporary(hostile: HostileProject) -> None:
    shutil.rmtree(hostile.dolt / ".dolt/temptf")
    (hostile.dolt / ".dolt/temptf").symlink_to(hostile.canary)


def remotes(hostile: HostileProject) -> None:
    path = hostile.dolt / ".dolt/repo_state.json"
    state = json.loads(path.read_text())
    remote = {
        "name": "origin",
        "url": f"file://{hostile.canary}/remote",
        "fetch_specs": [],
        "params": {},
    }
    state |= {"remotes": {"origin": remote}, "backups": {"b": {**remote, "name": "b"}}}
    path.write_text(json.dumps(state))
    hostile.sql("REPLACE INTO config VALUES ('sync.remote', 'origin'), ('dolt.auto-push', 'true')")


def on_reading(hostile: HostileProject, action: str) -> None:
    """Let Dolt do something when issues are only listed: bd migrates an older schema first."""
    hostile.sql(
        f"CREATE TRIGGER t BEFORE INSERT ON schema_migrations FOR EACH ROW {action}",
        "DELETE FROM schema_migrations WHERE version > 48",
        "CALL dolt_commit('-Am', 'x')",
    )
    empty(hostile.canary)


def empty(directory: Path) -> None:
    """Remove the traces of the maker's own Dolt."""
    shutil.rmtree(directory)
    directory.mkdir()


def repository_with_hooks(hostile: HostileProject) -> Path:
    """Make a repository of git whose hooks leave a mark when something is pushed to it."""
    place, person = hostile.world.root / "remote.git", hostile.world.environment
    maker = ["git", "-c", "user.name=a", "-c", "user.email=a@example.invalid"]
    for words in (
        ["init", "-q", hostile.place / "source"],
        ["-C", hostile.place / "source", "commit", "-q", "--allow-empty", "-m", "x"],
        ["clone", "-q", "--bare", hostile.place / "source", place],
    ):
        subprocess.run([*maker, *words], check=True, env=person)
    for name in ("pre-receive", "update", "post-update"):
        hostile.program(place / "hooks" / name)
    return place


def outfile(hostile: HostileProject) -> None:
    on_reading(hostile, f"BEGIN SELECT 'x' INTO OUTFILE '{hostile.canary}/out'; END")


def dumpfile(hostile: HostileProject) -> None:
    on_reading(hostile, f"BEGIN SELECT 'x' INTO DUMPFILE '{hostile.canary}/out'; END")


def load_file(hostile: HostileProject) -> None:
    on_reading(hostile, f"UPDATE issues SET title = load_file('{hostile.place}/secret')")


def backup(hostile: HostileProject) -> None:
    on_reading(hostile, f"CALL dolt_backup('sync-url', 'file://{hostile.canary}/b')")


def backup_by_git(hostile: HostileProject) -> None:
    place = repository_with_hooks(hostile)
    on_reading(hostile, f"CALL dolt_backup('sync-url', 'git+file://{place}')")


def pushed(hostile: HostileProject) -> None:
    hostile.sql(f"CALL dolt_remote('add', 'origin', 'file://{hostile.canary}/r')")
    on_reading(hostile, "CALL dolt_push('origin', 'main')")


def cloned(hostile: HostileProject) -> None:
    source = f"{hostile.other}/.beads/embeddeddolt/shop/.dolt/noms"
    on_reading(hostile, f"CALL dolt_clone('file://{source}', 'taken')")


def scheduled(hostile: HostileProject) -> None:
    hostile.sql(
        "CREATE EVENT e ON SCHEDULE EVERY 1 SECOND STARTS '2020-01-01' DO"
        f" SELECT 'x' INTO OUTFILE '{hostile.canary}/event'"
    )
    empty(hostile.canary)


def dolt_config(hostile: HostileProject) -> None:
    evil = str(hostile.program(hostile.world.root / "evil"))
    names = ("core.editor", "core.pager", "gpg.program", "credential.helper", "core.sshCommand")
    settings = dict.fromkeys(names, evil) | {"sqlserver.global.gpgsign": "1"}
    (hostile.dolt / ".dolt/config.json").write_text(json.dumps(settings))


def on_writing(hostile: HostileProject) -> None:
    hostile.sql(
        "CREATE TRIGGER w AFTER UPDATE ON issues FOR EACH ROW"
        f" BEGIN SELECT 'x' INTO OUTFILE '{hostile.canary}/out'; END"
    )


EVERYWHERE = (hooks, config, routes, redirect, env, metadata, server, formulas, linked_database, linked_lines)  # fmt: skip
CLASSIC = (linked_wal, sqlite_triggers, sqlite_garbage)
DOLT = (dolt_config, linked_tables, linked_inner, linked_temporary, remotes, outfile, dumpfile, load_file, backup,
        backup_by_git, pushed, cloned, scheduled, on_writing)  # fmt: skip
ALL = [
    *((line, plant) for line in LINES for plant in EVERYWHERE),
    *(("classic", plant) for plant in CLASSIC),
    *(("current", plant) for plant in DOLT),
]
# The attacks that succeed with an unconfined bd, by the question that bd is asked.
REAL_DANGERS = [
    ("classic", hooks, "update"), ("current", hooks, "update"),
    ("current", outfile, "list"), ("current", backup, "list"), ("current", backup_by_git, "list"),
    ("current", on_writing, "update"), ("current", load_file, "list"),
]  # fmt: skip


def check(hostile: HostileProject, *plants) -> str:
    for plant in plants:
        plant(hostile)
    before = hostile.outside()
    told = hostile.ask_everything()

    assert before == hostile.outside()
    assert SECRET not in told
    return told


@pytest.fixture
def hostile(request, tmp_path, tmp_path_factory):
    return HostileProject(request.param, tmp_path, tmp_path_factory)


SETTINGS = (hooks, config, routes, env, metadata, formulas)


@pytest.mark.parametrize("hostile", LINES, indirect=True)
def test_settings_have_no_effect(hostile, record_property):
    """Of hooks, settings, routes and variables together none is run, and all works as without."""
    told = check(hostile, *SETTINGS)

    assert hostile.child in told
    beads = hostile.world.beads
    assert ("ours", "ours, too") == (beads.notes(hostile.epic), beads.notes(hostile.child))
    record_property("figure", f"{len(SETTINGS)} kinds of settings in one .beads: 0 had an effect")


@pytest.mark.parametrize("hostile", ["current"], indirect=True)
def test_a_database_that_runs_code(hostile):
    """A database that pushes itself into a repository with hooks does not run them."""
    check(hostile, backup_by_git, on_writing)


@pytest.mark.long
@pytest.mark.parametrize(("hostile", "plant"), ALL, indirect=["hostile"])
def test_each_by_itself(hostile, plant, record_property):
    """Nothing of a hostile .beads is run, and nothing is written or read elsewhere."""
    check(hostile, plant)
    record_property("figure", f"{len(ALL)} hostile .beads, 13 calls each: 0 run")


@pytest.mark.long
@pytest.mark.parametrize(("hostile", "plant", "asked"), REAL_DANGERS, indirect=["hostile"])
def test_unconfined_it_would_happen(hostile, plant, asked, record_property):
    """The same bd, run by a person, does it: the dangers are real (a test of the tests)."""
    plant(hostile)
    words = ["update", hostile.epic, "--notes", "x"] if asked == "update" else ["list"]
    for _ in range(20):  # a hook is started in the background, and may not get to run
        done = subprocess.run(
            [hostile.world.program, *words, "--json"], cwd=hostile.world.root, check=False,
            env=hostile.world.environment, capture_output=True, timeout=60, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        if happened := os.listdir(hostile.canary) or SECRET.encode() in done.stdout:
            break

    assert happened
    record_property("figure", f"{len(REAL_DANGERS)} of them done by an unconfined bd")
