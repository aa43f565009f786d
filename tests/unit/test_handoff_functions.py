"""The five functions of the specification of handoff.yaml, and its six tests under its names."""

import os
import re
import stat
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

import handoff
from handoff import (
    clear_handoff,
    find_project_root,
    get_handoff_path,
    load_handoff,
    save_handoff,
    update_handoff,
)
from handoff.common.errors import HandoffError

GOOD = {"goal": "Implement user authentication", "status": "in_progress", "now": "Debugging"}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path


def write(root: Path, text: str) -> Path:
    path = root / ".flow-guardian/handoff.yaml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path


@pytest.mark.seed("001", "Returns None if file doesn't exist.")
@pytest.mark.seed("001", "def test_load_nonexistent()")
def test_load_nonexistent(root):
    """Returns None for missing file."""
    assert load_handoff(root) is None


@pytest.mark.seed("001", ".flow-guardian/handoff.yaml # Per-project, in project root")
@pytest.mark.seed("001", "Returns .flow-guardian/handoff.yaml relative")
@pytest.mark.seed("001", "Save handoff data to handoff.yaml.")
@pytest.mark.seed("001", "Creates directories as needed.")
@pytest.mark.seed("001", "Returns path to saved file.")
@pytest.mark.seed("001", "Missing directory: Auto-create")
@pytest.mark.seed("001", "def test_save_creates_directory()")
def test_save_creates_directory(root):
    """Creates .flow-guardian/ if missing."""
    path = save_handoff(GOOD, root)

    assert root / ".flow-guardian/handoff.yaml" == path == get_handoff_path(root)
    assert path.is_file()


@pytest.mark.parametrize("field", ["goal", "status", "now"])
@pytest.mark.parametrize("value", [None, "", "missing"])
@pytest.mark.seed("001", "| `goal` | string | Yes")
@pytest.mark.seed("001", "| `status` | enum | Yes")
@pytest.mark.seed("001", "| `now` | string | Yes")
@pytest.mark.seed("001", "Validates required fields.")
@pytest.mark.seed("001", "`goal` (non-empty string)")
@pytest.mark.seed("001", "`status` (one of: `in_progress`")
@pytest.mark.seed("001", "`now` (non-empty string)")
@pytest.mark.seed("001", "Validation failure: Raise ValueError")
@pytest.mark.seed("001", "def test_save_validates_required()")
def test_save_validates_required(root, field, value):
    """Raises ValueError if required fields missing."""
    data = dict(GOOD)
    if value == "missing":
        del data[field]
    else:
        data[field] = value

    with pytest.raises(ValueError, match=field):
        save_handoff(data, root)
    assert not (root / ".flow-guardian/handoff.yaml").exists()


@pytest.mark.seed("001", "Merge updates into existing handoff.")
@pytest.mark.seed("001", "Returns updated handoff data.")
@pytest.mark.seed("001", "def test_update_merges()")
def test_update_merges(root):
    """Merges updates into existing handoff."""
    save_handoff({**GOOD, "hypothesis": "off by one", "custom": [1, 2]}, root)
    updated = update_handoff({"now": "Writing a test", "session_id": "abc123"}, root)

    assert "Writing a test" == updated["now"]
    assert "off by one" == updated["hypothesis"]
    assert [1, 2] == updated["custom"]
    assert updated == load_handoff(root)


@pytest.mark.seed("001", "Find project root by looking for .flow-guardian/")
@pytest.mark.seed("001", "def test_find_project_root_git()")
def test_find_project_root_git(root):
    """Finds .git directory as project root."""
    (root / ".git").mkdir()
    (root / "a/b").mkdir(parents=True)

    assert root == find_project_root(str(root / "a/b"))


@pytest.mark.seed("001", "Find project root by looking for .flow-guardian/")
@pytest.mark.seed("001", "def test_find_project_root_flow_guardian()")
def test_find_project_root_flow_guardian(root):
    """Finds .flow-guardian as project root marker."""
    (root / ".flow-guardian").mkdir()
    (root / "a").mkdir()

    assert root == find_project_root(root / "a")


@pytest.mark.seed("001", "Find project root by looking for .flow-guardian/")
@pytest.mark.seed("001", "Returns current directory if none found.")
def test_find_project_root_others(root):
    """A .git file and pyproject.toml are markers; the nearest one wins; without any, the start."""
    (root / "tree/src").mkdir(parents=True)
    (root / "tree/.git").write_text("gitdir: elsewhere")
    (root / "tree/package/src").mkdir(parents=True)
    (root / "tree/package/pyproject.toml").touch()
    (root / "plain").mkdir()

    assert root / "tree" == find_project_root(root / "tree/src")
    assert root / "tree/package" == find_project_root(root / "tree/package/src")
    assert root / "plain" == find_project_root(root / "plain")


@pytest.mark.seed("001", "Get path to handoff.yaml for a project.")
def test_find_project_root_defaults_to_the_current_directory(root, monkeypatch):
    """Without an argument the search starts in the current directory."""
    (root / ".git").mkdir()
    (root / "a").mkdir()
    monkeypatch.chdir(root / "a")

    assert root == find_project_root()
    assert root / ".flow-guardian/handoff.yaml" == get_handoff_path()


def test_markers_in_home_and_root_do_not_count(root, monkeypatch):
    """A marker in $HOME or / does not capture the directories below it."""
    (root / ".git").mkdir()
    (root / "below").mkdir()
    monkeypatch.setenv("HOME", str(root))
    environment = {**os.environ, "HOME": str(root)}
    code = "import sys; from handoff import find_project_root as f; print(f(sys.argv[1]))"
    done = subprocess.check_output(
        [sys.executable, "-P", "-c", code, str(root / "below")], env=environment, text=True
    )

    assert str(root / "below") == done.strip()


@pytest.mark.seed("001", "Creates .flow-guardian/ directory if missing.")
def test_loading_creates_the_directory_below_a_given_root(root):
    """Loading creates .flow-guardian/ below the root that it is given, and nothing in it."""
    assert load_handoff(root) is None

    assert [root / ".flow-guardian"] == list(root.rglob("*"))
    assert 0o700 == stat.S_IMODE((root / ".flow-guardian").stat().st_mode)


@pytest.mark.parametrize("marker", [".git", "pyproject.toml", ""])
@pytest.mark.seed("001", "Creates .flow-guardian/ directory if missing.")
def test_loading_creates_the_directory_below_a_found_root_with_a_marker(root, marker, monkeypatch):
    """Without a given root it is created where a marker was found: no other place becomes one."""
    (root / "a").mkdir()
    if marker:
        (root / marker).mkdir()
    monkeypatch.chdir(root / "a")

    assert load_handoff() is None
    assert bool(marker) == (root / ".flow-guardian").is_dir()
    assert [] == list((root / "a").iterdir())


def test_loading_creates_nothing_in_home(root, monkeypatch):
    """A marker in $HOME makes no project of it."""
    (root / ".git").mkdir()
    monkeypatch.setenv("HOME", str(root))
    monkeypatch.chdir(root)

    assert load_handoff() is None
    assert [root / ".git"] == list(root.iterdir())


def test_loading_below_a_root_that_does_not_exist(root):
    """A project that is gone is not created again."""
    assert load_handoff(root / "gone") is None
    assert [] == list(root.iterdir())


@pytest.mark.parametrize("exists", [True, False])
def test_clear_deletes_the_file_and_keeps_the_directory(root, exists):
    """Clearing says whether there was a file."""
    if exists:
        save_handoff(GOOD, root)

    assert exists == clear_handoff(root)
    assert not get_handoff_path(root).exists()
    assert exists == (root / ".flow-guardian").is_dir()
    assert not clear_handoff(root)


def test_the_names_of_the_origin():
    """The package has the error classes and constants of the program that the file comes from."""
    assert (".flow-guardian", "handoff.yaml") == (handoff.FLOW_GUARDIAN_DIR, handoff.HANDOFF_FILE)
    assert {"in_progress", "completed", "blocked"} == handoff.VALID_STATUSES
    assert issubclass(handoff.HandoffValidationError, handoff.HandoffError)
    assert issubclass(handoff.HandoffValidationError, ValueError)
    assert [] == [name for name in handoff.__all__ if not hasattr(handoff, name)]


@pytest.mark.seed("001", "`timestamp` (auto-generated if missing)")
@pytest.mark.seed("001", '"timestamp": datetime.now().isoformat()')
def test_timestamp_is_made_and_refreshed(root):
    """A missing timestamp is set in ISO 8601, and an update always sets a new one."""
    save_handoff({**GOOD, "timestamp": "2026-01-17T10:30:00Z"}, root)
    kept = load_handoff(root)["timestamp"]
    refreshed = update_handoff({}, root)["timestamp"]
    save_handoff(GOOD, root)
    made = load_handoff(root)["timestamp"]

    assert "2026-01-17T10:30:00Z" == kept
    assert datetime.fromisoformat(refreshed).tzinfo is not None
    assert abs((datetime.now(UTC) - datetime.fromisoformat(made)).total_seconds()) < 60


@pytest.mark.parametrize(
    "before",
    [
        "2026-01-17T10:30:00Z",
        "2026-01-17 10:30:00+00:00",
        "2026-01-17T10:30:00.123456+00:00",
        "2026-01-17T10:30:00",
        "yesterday",
        "null",
    ],
)
@pytest.mark.seed("001", "Always updates timestamp.")
def test_an_update_has_a_later_timestamp_whatever_the_file_has(root, before):
    """Files with seconds, microseconds, no zone or no time at all are loaded and updated."""
    write(root, f"goal: g\nstatus: in_progress\nnow: n\ntimestamp: {before}\n")
    updated = update_handoff({}, root)["timestamp"]

    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", updated)
    assert abs((datetime.now(UTC) - datetime.fromisoformat(updated)).total_seconds()) < 60


@pytest.mark.seed("001", "Always updates timestamp.")
def test_each_timestamp_is_strictly_later_than_the_one_before(root, monkeypatch):
    """Also if the clock stands still, or was set back; a time of next week is not continued."""
    monkeypatch.setattr(time, "time", lambda: 1_800_000_000.1234)
    save_handoff(GOOD, root)
    found = [load_handoff(root)["timestamp"]]
    found += [update_handoff({}, root)["timestamp"] for _ in range(3)]
    monkeypatch.setattr(time, "time", lambda: 1_800_000_000 - 3600)
    save_handoff(GOOD, root)
    found.append(load_handoff(root)["timestamp"])
    assert [f"2027-01-15T08:00:00.{number}Z" for number in range(123, 128)] == found
    save_handoff({**GOOD, "timestamp": "2027-01-22T10:00:00Z"}, root)

    assert "2027-01-15T07:00:00.000Z" == update_handoff({}, root)["timestamp"]


@pytest.mark.parametrize(
    "timestamp",
    ["yesterday", "10:30", "2026-13-01T00:00:00Z", "2026-01-17x10:30:00Z", "1800000000"],
)
@pytest.mark.seed("001", "| `timestamp` | datetime | Yes")
def test_a_timestamp_that_is_no_iso_8601_is_refused(root, timestamp):
    """The error names the field, and nothing is written."""
    with pytest.raises(ValueError, match="timestamp"):
        save_handoff({**GOOD, "timestamp": timestamp}, root)
    assert not get_handoff_path(root).exists()


@pytest.mark.parametrize(
    "timestamp",
    [
        "2026-01-17T10:30:00Z",
        "2026-01-17T10:30:00.123456+02:00",
        "2026-01-17 10:30:00",
        "20260117T103000Z",
    ],
)
@pytest.mark.seed("001", "| `timestamp` | datetime | Yes")
def test_a_given_timestamp_in_iso_8601_is_kept(root, timestamp):
    """A timestamp that is given to save is written as it is."""
    save_handoff({**GOOD, "timestamp": timestamp}, root)

    assert timestamp == load_handoff(root)["timestamp"]


@pytest.mark.parametrize(
    "text",
    [
        "2026-01-17T10:30:00Z",
        "'2026-01-17T10:30:00Z'",
        '"2026-01-17T10:30:00Z"',
    ],
)
def test_bare_and_quoted_timestamps_load_as_text(root, text):
    """A bare YAML timestamp and a quoted one load as the same ISO text."""
    write(root, f"goal: a\nstatus: blocked\nnow: b\ntimestamp: {text}\n")

    assert "2026-01-17T10:30:00Z" == load_handoff(root)["timestamp"]


def test_datetime_is_saved_as_text(root):
    """A caller's datetime is written as ISO text."""
    save_handoff({**GOOD, "timestamp": datetime(2026, 1, 17, tzinfo=UTC)}, root)

    assert "2026-01-17T00:00:00+00:00" == load_handoff(root)["timestamp"]


@pytest.mark.seed("001", "# .flow-guardian/handoff.yaml goal:")
@pytest.mark.seed("001", "Load handoff.yaml from project.")
def test_the_specifications_example_loads(root):
    """The specification's own example, with its comments, loads with its nine fields."""
    write(
        root,
        """# .flow-guardian/handoff.yaml
goal: "Implement user authentication with JWT"
status: in_progress  # in_progress | completed | blocked
now: "Debugging token expiry in auth.py"
hypothesis: "Off-by-one error in timestamp comparison"
outcome: null  # null until resolved, then "success" or description
files:
  - src/auth.py
  - tests/test_auth.py
branch: fix/jwt-expiry
timestamp: 2026-01-17T10:30:00Z
session_id: "abc123"  # Claude Code session ID
""",
    )
    found = load_handoff(root)

    assert ["src/auth.py", "tests/test_auth.py"] == found["files"]
    assert found["outcome"] is None
    assert "abc123" == found["session_id"]
    update_handoff({"now": "Done"}, root)
    text = (root / ".flow-guardian/handoff.yaml").read_text()
    assert "# in_progress | completed | blocked" in text
    assert 'now: "Done"' in text
    assert '"Implement user authentication with JWT"' in text


@pytest.mark.parametrize(
    "text",
    [
        "goal: [unclosed",
        "- a list",
        "just a text",
        "goal: !!python/object/apply:os.system [id]",
        "a: &a [x]\nb: *a\n",
        "a: " + "[" * 60 + "]" * 60,
        "1: a number as a name",
        "\tgoal: a tab",
        "goal: \x00",
    ],
)
@pytest.mark.seed("001", "Invalid YAML: Log warning, return None")
def test_invalid_yaml_is_none_with_a_warning(root, text, caplog):
    """A file that is no checkpoint loads as None with a warning, and never raises."""
    write(root, text)

    assert load_handoff(root) is None
    assert "handoff.yaml cannot be read" in caplog.text


@pytest.mark.parametrize("text", ["", "# only a comment\n", "goal: null\nstatus: ~\nnow:\n"])
def test_null_only_counts_as_absent(root, text):
    """An empty file or one with only nulls counts as absent, and an update starts anew."""
    write(root, text)

    assert load_handoff(root) is None
    assert "Working on project" == update_handoff({}, root)["goal"]


def test_update_of_a_file_with_some_nulls(root):
    """A file with some nulls can be updated."""
    write(root, "goal: null\nstatus: null\nnow: null\nbranch: main\n")
    updated = update_handoff({"session_id": "x"}, root)

    assert ("Working on project", "in_progress", "main") == (
        updated["goal"],
        updated["status"],
        updated["branch"],
    )


@pytest.mark.seed("001", "Creates new handoff if none exists.")
def test_update_begins_with_defaults(root):
    """Without a file the defaults are those of the specification."""
    updated = update_handoff({"goal": "Make it fast"}, root)

    assert ("Make it fast", "in_progress", "Make it fast") == tuple(
        updated[k] for k in ("goal", "status", "now")
    )


def test_unreadable_file_is_kept_aside(root):
    """A save over an unreadable file keeps that file beside the new one."""
    write(root, "goal: [my precious notes")
    save_handoff(GOOD, root)
    kept = list((root / ".flow-guardian").glob("handoff.yaml.unreadable-*"))

    assert ["goal: [my precious notes"] == [path.read_text() for path in kept]
    assert "Debugging" == load_handoff(root)["now"]


def test_large_file_is_refused(root):
    """A file over 64 KiB is neither loaded nor overwritten."""
    path = write(root, "goal: " + "x" * (64 << 10))

    assert load_handoff(root) is None
    with pytest.raises(HandoffError, match="limit"):
        save_handoff(GOOD, root)
    assert path.stat().st_size > 64 << 10
    other = root / "other"
    other.mkdir()
    with pytest.raises(HandoffError, match="64 KiB"):
        save_handoff({**GOOD, "notes": "x" * (64 << 10)}, other)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("status", "done"),
        ("files", "a.py"),
        ("files", [1]),
        ("branch", 7),
        ("goal", 1),
        ("session_id", []),
    ],
)
@pytest.mark.seed("001", "| `status` | enum | Yes")
@pytest.mark.seed("001", "| `hypothesis` | string | No")
@pytest.mark.seed("001", "| `outcome` | string | No")
@pytest.mark.seed("001", "| `files` | list[string] | No")
@pytest.mark.seed("001", "| `branch` | string | No")
@pytest.mark.seed("001", "| `session_id` | string | No")
def test_wrong_types_are_named(root, field, value):
    """A value of the wrong type is a ValueError that names the field."""
    with pytest.raises(ValueError, match=field):
        save_handoff({**GOOD, field: value}, root)


@pytest.mark.seed("001", "Permission errors: Raise with clear message")
def test_permission_error_has_a_clear_message(root):
    """Without permission to write, the error is a PermissionError that names the file."""
    if os.getuid() == 0:
        code = (
            "import os,sys; os.setgid(65534); os.setuid(65534)\n"
            "from handoff import save_handoff\n"
            "from pathlib import Path\n"
            "try: save_handoff({'goal':'a','status':'blocked','now':'b'}, Path(sys.argv[1]))\n"
            "except PermissionError as problem: print(problem)\n"
        )
        # Import everything before the user changes: the interpreter may be private.
        code = "import handoff\nhandoff.save_handoff\n" + code
        root.chmod(0o755)
        done = subprocess.run(
            [sys.executable, "-P", "-c", code, str(root)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert f"Cannot write {root}/.flow-guardian/handoff.yaml" in done.stdout, done.stderr
        return
    root.chmod(0o500)
    with pytest.raises(PermissionError, match="Cannot write"):
        save_handoff(GOOD, root)


def test_yaml_one_one_surprises_stay_texts(root):
    """`no`, `12:30:00`, `010` and dates stay text; numbers and booleans have their types."""
    write(
        root,
        "goal: a\nstatus: blocked\nnow: b\nw: no\nx: 12:30:00\ny: 010\nz: 2026-01-01\nn: 3\nt: true\n",
    )
    found = load_handoff(root)

    assert ("no", "12:30:00", "010", "2026-01-01", 3, True) == tuple(found[k] for k in "wxyznt")
    update_handoff({}, root)
    assert ("no", "12:30:00", "010", "2026-01-01", 3, True) == tuple(
        load_handoff(root)[k] for k in "wxyznt"
    )


def test_unicode_round_trip(root):
    """Text in any language and emoji survive, readable in the file."""
    save_handoff({**GOOD, "goal": "로그인 고치기 — größer 修复 🚀", "now": "a: b # c"}, root)

    assert "로그인 고치기 — größer 修复 🚀" == load_handoff(root)["goal"]
    assert "a: b # c" == load_handoff(root)["now"]
    assert "修复 🚀" in get_handoff_path(root).read_text()


def test_secrets_are_masked(root):
    """Secrets in saved values are masked."""
    token = "ghp_" + "Zz9" * 12
    save_handoff({**GOOD, "now": f"pushing with {token}", "notes": {"deep": [token]}}, root)

    assert token not in get_handoff_path(root).read_text()


def test_mode_and_gitignore(root):
    """The file is 0600, its directory 0700 and ignored by git; an existing .gitignore is kept."""
    save_handoff(GOOD, root)
    directory = root / ".flow-guardian"
    assert 0o600 == stat.S_IMODE((directory / "handoff.yaml").stat().st_mode)
    assert 0o700 == stat.S_IMODE(directory.stat().st_mode)
    (directory / ".gitignore").write_text("mine\n")
    save_handoff(GOOD, root)

    assert "mine\n" == (directory / ".gitignore").read_text()


def test_safe_loader_agrees(root):
    """PyYAML's plain safe loader reads our files with the same values."""
    save_handoff({**GOOD, "files": ["a b.py", "ünï.py"], "outcome": None}, root)

    assert load_handoff(root) == yaml.safe_load(get_handoff_path(root).read_text())


def test_concurrent_writers_lose_nothing(root):
    """Four processes that update at once lose no key."""
    save_handoff(GOOD, root)
    code = (
        "import sys; from pathlib import Path; from handoff import update_handoff\n"
        "for number in range(25): update_handoff({sys.argv[2] + str(number): number}, Path(sys.argv[1]))"
    )
    workers = [
        subprocess.Popen([sys.executable, "-P", "-c", code, str(root), name]) for name in "abcd"
    ]

    assert [0, 0, 0, 0] == [worker.wait(60) for worker in workers]
    found = load_handoff(root)
    assert all(found[f"{name}{number}"] == number for name in "abcd" for number in range(25))


def test_editor_between_read_and_write_wins_nothing_lost(root, monkeypatch):
    """A change by an editor between our read and our write is merged, not overwritten."""
    from handoffd.fs import files

    save_handoff(GOOD, root)
    path = get_handoff_path(root)
    original = files._write_temporary
    edits = iter(range(1))

    def slow(*arguments):
        if next(edits, None) is not None:
            path.write_text(path.read_text() + "written_by: an editor\n")
        return original(*arguments)

    monkeypatch.setattr(files, "_write_temporary", slow)
    updated = update_handoff({"now": "Going on"}, root)

    assert "an editor" == updated["written_by"]
    assert "Going on" == updated["now"]
