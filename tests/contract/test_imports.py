"""Imports follow the road of the data; one importer for each heavy library; pure rooms stay pure."""

import ast
import functools
from pathlib import Path

import pytest

from conftest import REPOSITORY

DAEMON = REPOSITORY / "daemon/handoffd"
CLIENT = REPOSITORY / "client/handoff"

# room -> rooms it may import (besides itself and the foundation)
FOUNDATION = {"errors", "clock", "log", "mounts", "redaction", "yaml_guard"}
ALLOWED = {
    "transcript": set(),
    "session": {"transcript"},
    "store": set(),
    "links": {"paths"},
    "files": {"placing"},
    "placing": set(),
    "sources": {"links", "transcript", "store"},
    "handoffs": {"session", "transcript", "files"},
    "config": set(),
    "paths": set(),
    "lock": set(),
    "token_file": {"files"},
    "door": {"config", "token_file"},
    "failures": {"files"},
    "memory": set(),
    "service": set(),
    "projects": {"session", "sources", "store"},
    "gate": {"config", "files", "store"},
    "backlog": {"counters", "memory", "sources", "store"},
    "counters": set(),
    "folds": {"gate", "session", "sources", "store"},
    "intake": {
        "backlog",
        "counters",
        "folds",
        "gate",
        "projects",
        "session",
        "sources",
        "store",
        "transcript",
    },
    "board": {"gate", "handoffs", "projects", "session", "sources", "store"},
    "scribe": {"board", "files", "handoffs", "links", "projects", "session", "sources"},
    "lookout": {"board", "intake", "sources"},
    "triggers": set(),
    "courier": {"links", "store"},
    "workflow": {"courier", "handoffs", "links", "session", "store", "triggers"},
    "herald": {"board", "handoffs", "links", "projects", "session", "store", "triggers"},
    "recorder": {
        "archivist",
        "board",
        "config",
        "courier",
        "files",
        "handoffs",
        "herald",
        "links",
        "projects",
        "session",
        "store",
        "triggers",
        "workflow",
    },
    "archivist": {
        "board",
        "handoffs",
        "herald",
        "links",
        "projects",
        "session",
        "sources",
        "store",
        "triggers",
    },
    "usher": {
        "archivist",
        "board",
        "handoffs",
        "projects",
        "scribe",
        "session",
        "sources",
        "store",
    },
    "parts": {
        "archivist",
        "usher",
        "herald",
        "recorder",
        "scribe",
        "board",
        "config",
        "door",
        "gate",
        "intake",
        "lookout",
        "projects",
        "store",
        "triggers",
    },
    "retention": {"archivist", "backlog", "handoffs", "parts", "session", "sources"},
    "oblivion": {"files", "handoffs", "parts", "projects", "session", "sources", "store"},
    "api": {
        "config",
        "door",
        "handoffs",
        "oblivion",
        "parts",
        "paths",
        "projects",
        "retention",
        "session",
        "sources",
        "store",
        "token_file",
        "transcript",
        "usher",
        "workflow",
    },
    "app": {
        "failures",
        "links",
        "herald",
        "recorder",
        "archivist",
        "oblivion",
        "scribe",
        "triggers",
        "usher",
        "api",
        "board",
        "config",
        "door",
        "files",
        "gate",
        "intake",
        "lock",
        "lookout",
        "memory",
        "parts",
        "paths",
        "projects",
        "service",
        "session",
        "store",
    },
    "offline": {
        "api",
        "config",
        "handoffs",
        "links",
        "offline_brief",
        "offline_contract",
        "offline_mcp",
        "offline_repair",
        "offline_threads",
        "offline_tracks",
        "paths",
        "session",
        "sources",
        "token_file",
    },
    # The gate and its configuration: what may not be learned is not noted or told here, either.
    "offline_brief": {"config", "files", "gate", "handoffs", "store"},
    "offline_threads": {
        "api",
        "config",
        "gate",
        "offline_brief",
        "offline_method",
        "sources",
        "store",
        "workflow",
    },
    "offline_method": {"api", "paths", "store"},
    "offline_repair": {"lock", "paths", "store"},
    "offline_mcp": {"api", "offline_threads"},
    "offline_tracks": {
        "api",
        "archivist",
        "config",
        "handoffs",
        "offline_contract",
        "offline_method",
        "paths",
        "projects",
        "recorder",
        "session",
        "sources",
        "store",
        "workflow",
    },
    "offline_contract": {
        "api",
        "archivist",
        "config",
        "handoffs",
        "offline_method",
        "paths",
        "replay",
        "session",
        "sources",
        "store",
    },
    "replay": {"handoffs", "session", "sources", "store", "transcript"},
    "start": {"app", "lock", "memory", "paths"},
    "command_line": {"config", "replay", "session", "start"},
    "__main__": {"command_line", "start"},
    "__init__": set(),
    **{name: set() for name in FOUNDATION},
}
PURE = (
    "api/http_guard.py",
    "redaction",
    "yaml_guard.py",
    "transcript",
    "session",
    "handoffs/checkpoint.py",
    "handoffs/lanes.py",
    "handoffs/edits.py",
    "handoffs/briefing.py",
    "handoffs/account.py",
    "handoffs/contract.py",
    "handoffs/encoding.py",
    "handoffs/opening.py",
    "handoffs/thread.py",
    "handoffs/tracks/front_matter.py",
    "handoffs/tracks/markdown.py",
    "handoffs/tracks/record.py",
    "handoffs/tracks/index.py",
    "handoffs/tracks/metadata.py",
    "handoffs/tracks/plan.py",
    "handoffs/tracks/settings.py",
    "handoffs/tracks/workers.py",
    "handoffs/tracks/telling.py",
    "handoffs/tracks/analysis.py",
    "handoffs/tracks/letter.py",
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
    "handoffd.files",
    "handoffd.log",
}
ONE_IMPORTER = {
    "mcp": ["api/http.py"],
    "mcp_types": ["api/http.py"],
    "uvicorn": ["api/http.py"],
    "apscheduler": ["triggers/schedule.py"],
    "watchdog": ["sources/observer.py"],
    "ruamel": ["handoffs/checkpoint.py"],
    "msgspec": ["session/state.py", "transcript/records.py"],
    "structlog": ["log.py"],
    "sqlite3": [
        "store/backup.py",
        "store/core.py",
        "store/damage.py",
        "store/database.py",
        "store/erasure.py",
        "store/ledger.py",
        "store/outbox.py",
        "store/recovery.py",
        "store/state.py",
        "store/threads.py",
    ],
    "subprocess": ["links/program.py"],
    "yaml": [
        "gate.py",
        "handoffs/checkpoint.py",
        "handoffs/tracks/front_matter.py",
        "yaml_guard.py",
    ],
}


@functools.cache
def imports(path: Path) -> frozenset[str]:
    """Return the full names of what a file imports."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return frozenset(found)


def clock_readings(path: Path) -> list[str]:
    """Return where a file reads the clock; to convert a time that is given is no reading."""
    calls = [
        node
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("clock.")
    ]
    return [ast.unparse(call) for call in calls if not call.args]


def rooms(names: set[str]) -> set[str]:
    return {
        name.split(".")[1] for name in names if name.startswith("handoffd.") and name.count(".")
    }


def files(root: Path) -> list[Path]:
    return sorted(root.rglob("*.py"))


@pytest.mark.parametrize("path", files(DAEMON), ids=lambda path: str(path.relative_to(DAEMON)))
def test_no_back_edge(path):
    """A room imports only what lies before it on the road."""
    room = path.relative_to(DAEMON).parts[0].removesuffix(".py")
    foreign = rooms(imports(path)) - ALLOWED[room] - FOUNDATION - {room}

    assert set() == foreign


@pytest.mark.parametrize("place", PURE)
def test_pure_rooms_do_no_io(place):
    """Pure rooms read no clock and touch no disk."""
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
    """A heavy library has one importer, so that a swap is one file."""
    users = [
        str(path.relative_to(DAEMON))
        for path in files(DAEMON)
        if any(name.split(".")[0] == library for name in imports(path))
    ]

    assert ONE_IMPORTER[library] == users


def test_client_knows_the_daemon_by_one_door():
    """Of the client's files only local.py imports the daemon's code, and none a library."""
    allowed = {"handoff"}
    for path in files(CLIENT):
        names = {name.split(".")[0] for name in imports(path)}
        if path.name != "local.py":
            assert "handoffd" not in names, path
        assert not names & {"yaml", "pydantic", "structlog", "watchdog", "ruamel"}, path
    light = {"posix", "sys", "time", "_json", "_signal", "_socket", "pwd", "typing"}
    for name in ("fast.py", "wire.py", "paths.py", "errors.py"):
        names = {found.split(".")[0] for found in imports(CLIENT / name)} - allowed
        assert names <= light, name
    for name in ("relay.py", "peer.py", "children.py"):
        names = {found.split(".")[0] for found in imports(CLIENT / name)} - allowed
        assert names <= light | {"select", "fcntl", "collections"}, name
