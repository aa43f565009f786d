"""Packages import in one direction; heavy libraries have one importer; pure modules stay pure."""

import ast
import functools
from pathlib import Path

import pytest

from conftest import REPOSITORY

DAEMON = REPOSITORY / "daemon/handoffd"
CLIENT = REPOSITORY / "client/handoff"

# A package imports only the packages on the lines below its own line.
# Modules that lie directly in handoffd/ are listed by their names.
LINES = (
    ("__main__",),
    ("command_line",),
    ("start",),
    ("app",),
    ("offline",),
    ("api",),
    ("privacy",),
    ("context",),
    ("hooks",),
    ("triggers",),
    ("tracks",),
    ("contract", "checkpoint", "threads"),
    ("ingest",),
    ("projects",),
    ("session",),
    ("agents",),
    ("links", "store"),
    ("config",),
    ("fs",),
    ("runtime",),
    ("redaction", "errors", "__init__"),
)
LINE_OF = {package: number for number, line in enumerate(LINES) for package in line}
ROOT_MODULES_MAX = 8
# An agent is known by its protocol (agents/agent.py); the fold still reads Claude Code's records.
AGENT_BY_NAME = ("agents", "session", "hooks/brief.py")
# `handoffd --client` runs the client in the daemon's interpreter if the client finds none.
CLIENT_ENTRY = ("__main__.py", "handoff.fast")

PURE = (
    "redaction",
    "runtime/safe_yaml.py",
    "agents/events.py",
    "agents/test_commands.py",
    "agents/test_runs.py",
    "agents/test_scopes.py",
    "agents/claude_code/records.py",
    "agents/claude_code/record_events.py",
    "agents/claude_code/tool_events.py",
    "agents/claude_code/typed_text.py",
    "agents/claude_code/record_text.py",
    "session",
    "projects/lanes.py",
    "checkpoint/checkpoint_format.py",
    "checkpoint/edits.py",
    "contract/contract_format.py",
    "contract/composition.py",
    "contract/reported_work.py",
    "contract/prose.py",
    "contract/path_encoding.py",
    "contract/presentation.py",
    "hooks/brief.py",
    "threads/thread_text.py",
    "tracks/front_matter.py",
    "tracks/markdown.py",
    "tracks/record.py",
    "tracks/index.py",
    "tracks/metadata.py",
    "tracks/plan.py",
    "tracks/settings.py",
    "tracks/parallel_workers.py",
    "tracks/record_sections.py",
    "tracks/analysis.py",
    "tracks/message.py",
    "api/http_guard.py",
)
IMPURE = {
    "os",
    "time",
    "socket",
    "subprocess",
    "pathlib",
    "sqlite3",
    "asyncio",
    "threading",
    "io.open",
    "datetime",
    "handoffd.fs.files",
    "handoffd.runtime.log",
}
ONE_IMPORTER = {
    "mcp": ["api/http_oauth.py", "api/http_server.py"],
    "mcp_types": ["api/http_server.py"],
    "uvicorn": ["api/http_server.py"],
    "apscheduler": ["runtime/schedule.py"],
    "watchdog": ["ingest/file_observer.py"],
    "ruamel": ["checkpoint/checkpoint_format.py"],
    "msgspec": ["agents/claude_code/records.py", "agents/events.py", "session/state.py"],
    "structlog": ["runtime/log.py"],
    "sqlite3": [
        "store/backup.py",
        "store/core.py",
        "store/damage.py",
        "store/database.py",
        "store/erasure.py",
        "store/item_marks.py",
        "store/ledger.py",
        "store/oauth.py",
        "store/outbox.py",
        "store/recovery.py",
        "store/state.py",
        "store/threads.py",
    ],
    "subprocess": ["links/program.py"],
    "yaml": [
        "checkpoint/checkpoint_format.py",
        "projects/learning_policy.py",
        "runtime/safe_yaml.py",
        "tracks/front_matter.py",
    ],
}


@functools.cache
def imports(path: Path) -> frozenset[str]:
    """Return the full names of all imports of a file, including lazy and type-checking ones."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return frozenset(found)


def clock_readings(path: Path) -> list[str]:
    """Return the places where a file reads the clock; converting a given time does not count."""
    calls = [
        node
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("clock.")
    ]
    return [ast.unparse(call) for call in calls if not call.args]


def package_of(path: Path) -> str:
    return path.relative_to(DAEMON).parts[0].removesuffix(".py")


def packages(path: Path) -> set[str]:
    """Return the packages of the daemon that a file imports; `handoffd` itself is __init__."""
    names = {name for name in imports(path) if name.split(".")[0] == "handoffd"}
    found = {name.split(".")[1] for name in names}
    return {name if name in LINE_OF else "__init__" for name in found}


def files(root: Path) -> list[Path]:
    return sorted(root.rglob("*.py"))


@pytest.mark.parametrize("path", files(DAEMON), ids=lambda path: str(path.relative_to(DAEMON)))
def test_imports_go_one_way(path):
    """A file imports its own package and those on the lines below, so no cycle is possible."""
    own = package_of(path)
    wrong = {name for name in packages(path) - {own} if LINE_OF[name] <= LINE_OF[own]}

    assert set() == wrong


def test_an_agent_is_chosen_in_one_place():
    """Outside agents/ no module names an agent, so that another one is one directory."""
    by_name = [
        str(path.relative_to(DAEMON))
        for path in files(DAEMON)
        if any(name.startswith("handoffd.agents.claude_code") for name in imports(path))
    ]

    assert [] == [name for name in by_name if not name.startswith(AGENT_BY_NAME)]


@pytest.mark.parametrize(
    ("module", "makers"),
    [
        ("links.beads", ["links/trackers.py"]),
        ("store.threads", ["store/core.py", "store/schema.py"]),
    ],
)
def test_an_implementation_is_chosen_in_one_place(module, makers):
    """One module imports the issue tracker, and one the thread store; others know the protocol."""
    users = [
        str(path.relative_to(DAEMON))
        for path in files(DAEMON)
        if any(name.startswith(f"handoffd.{module}.") for name in imports(path))
    ]

    assert makers == users


def test_every_package_has_its_line():
    """Each package and each root module has one line in the order of imports, and no other has."""
    found = {package_of(path) for path in files(DAEMON)}

    assert found == set(LINE_OF)


def test_few_modules_lie_in_the_root():
    """At most eight modules lie directly in the daemon's package."""
    assert len(list(DAEMON.glob("*.py"))) <= ROOT_MODULES_MAX


@pytest.mark.parametrize(
    "path",
    [path for path in files(DAEMON) if path.name == "__init__.py"],
    ids=lambda path: str(path.parent.relative_to(DAEMON)),
)
def test_every_package_introduces_itself(path):
    """Every package has a docstring whose first line describes it."""
    assert ast.get_docstring(ast.parse(path.read_text()))


@pytest.mark.parametrize("path", files(DAEMON), ids=lambda path: str(path.relative_to(DAEMON)))
def test_daemon_imports_the_common_part_of_the_client(path):
    """The daemon imports only handoff.common and the version from the client, lazily or not."""
    names = {name for name in imports(path) if name.split(".")[0] == "handoff"}
    if path.relative_to(DAEMON).as_posix() == CLIENT_ENTRY[0]:
        names = {name for name in names if not name.startswith(CLIENT_ENTRY[1])}
    wrong = {name for name in names if not name.startswith("handoff.common.")}

    assert wrong <= {"handoff.__version__", "handoff.common"}


def test_common_part_imports_nothing_of_either_side():
    """handoff.common imports only itself and the standard library."""
    for path in files(CLIENT / "common"):
        ours = {name for name in imports(path) if name.split(".")[0] in ("handoff", "handoffd")}
        assert [] == [name for name in ours if not name.startswith("handoff.common")], path


@pytest.mark.parametrize("place", PURE)
def test_pure_modules_do_no_io(place):
    """A pure module reads no clock and touches no disk."""
    paths = files(DAEMON / place) if (DAEMON / place).is_dir() else [DAEMON / place]
    for path in paths:
        names = imports(path)
        assert not [
            name for name in names for bad in IMPURE if name == bad or name.startswith(f"{bad}.")
        ], path
        assert "open(" not in path.read_text()
        assert [] == clock_readings(path), path


@pytest.mark.parametrize("library", ONE_IMPORTER)
def test_one_importer(library):
    """A heavy library has one importer, so that replacing it changes one file."""
    users = [
        str(path.relative_to(DAEMON))
        for path in files(DAEMON)
        if any(name.split(".")[0] == library for name in imports(path))
    ]

    assert ONE_IMPORTER[library] == users


def test_client_reaches_the_daemon_by_one_module():
    """Only local.py of the client imports the daemon's code, and no file imports a library."""
    allowed = {"handoff"}
    for path in files(CLIENT):
        names = {name.split(".")[0] for name in imports(path)}
        if path.name != "local.py":
            assert "handoffd" not in names, path
        assert not names & {"yaml", "pydantic", "structlog", "watchdog", "ruamel"}, path
    light = {"posix", "sys", "time", "_json", "_signal", "_socket", "pwd", "typing"}
    for name in ("fast.py", "common/wire.py", "common/paths.py", "common/errors.py"):
        names = {found.split(".")[0] for found in imports(CLIENT / name)} - allowed
        assert names <= light, name
    for name in ("relay", "answerer", "child_processes"):
        path = CLIENT / "mcp_relay" / f"{name}.py"
        names = {found.split(".")[0] for found in imports(path)} - allowed
        assert names <= light | {"select", "fcntl", "collections"}, name
