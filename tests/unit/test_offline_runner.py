"""A handler in the client's own process: one thread, the stores it needs, and nothing else."""

import asyncio
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

import damaged_stores
from conftest import Session
from handoff.common.errors import HandoffError
from handoffd.config import ClaudeConfig, Config, LiveConfig
from handoffd.offline import runner
from handoffd.offline.transcript_sessions import TranscriptSessions
from handoffd.projects.registry import ProjectRegistry
from handoffd.session.storage import load
from handoffd.store.core import CoreStore

STYLE = {"columns": 80, "colour": False, "json": True}
ONE, TWO = "aaaaaaaa-0000-4000-8000-000000000001", "aaaaaaaa-0000-4000-8000-000000000002"


@pytest.fixture
def home(tmp_path: Path, monkeypatch) -> Iterator[Path]:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("HANDOFFD_CONFIG", raising=False)
    (tmp_path / "shop/.git").mkdir(parents=True)
    logging = structlog.get_config()
    yield tmp_path
    structlog.configure(**logging)  # the runner logs nothing


def run(command: str, home: Path, **params) -> dict:
    return runner.run(command, {"cwd": str(home / "shop"), **params}, STYLE)[0]


def test_work_is_done_in_the_same_thread(home):
    """What the daemon does in a thread is done at once, and none is started."""

    async def act(_context) -> tuple[int, int]:
        return await asyncio.to_thread(threading.get_ident), threading.active_count()

    before = threading.active_count()

    assert (threading.get_ident(), before) == runner.run_in_process(act, needs_config=True)


@pytest.mark.parametrize("problem", [HandoffError("no"), KeyboardInterrupt()])
def test_a_failure_of_the_work_is_raised(home, problem):
    """A failure, and Ctrl-C, leave the work that is done for a handler."""

    def fail() -> None:
        raise problem

    with pytest.raises(type(problem)):
        runner.run_in_process(lambda _context: asyncio.to_thread(fail), needs_config=True)


def test_steps_are_told_as_they_are_taken(home):
    """Each step is told before the next one is taken: the first one before any file is there."""
    seen: list[bool] = []
    record = home / "shop/conductor"
    params = {"cwd": str(home / "shop"), "general": True}
    runner.run("create", params, STYLE, lambda _step: seen.append(record.exists()))

    assert (False, True) == (seen[0], seen[-1])


def test_only_core_db_is_opened(home):
    """A command leaves core.db behind, and no state.db."""
    run("close", home, done=["one"])
    run("create", home, general=True)

    found = [path.name for path in (home / "state").rglob("*.db")]
    assert ["core.db"] == found


def test_a_daemon_is_missing(home):
    """A handler that needs a running daemon fails with a word about it."""
    with pytest.raises(AttributeError, match="Without a daemon"):
        run("save", home, message="m")


def test_a_damaged_store_keeps_nobody_from_handoffs(home):
    """Handoffs are read, and a person is called for, while core.db is damaged; none is closed."""
    left = run("close", home, done=["one"])["path"]
    damaged_stores.garbage(next((home / "state").rglob("core.db")))

    assert [left] == [item["path"] for item in run("list", home)["handoffs"]]
    assert [left] == [item["path"] for item in run("open", home)["handoffs"]]
    assert left == run("escalate", home, reason="look")["path"]
    assert 1 == run("review", home, settle=True)["settled"]
    with pytest.raises(HandoffError, match="damaged"):
        run("close", home, done=["two"])


class Sessions:
    """Two sessions of one person, and the store that finds them."""

    def __init__(self, home: Path):
        self.core = CoreStore(str(home / "core.db"))
        for session_id in (ONE, TWO):
            session = Session(home / ".claude/projects/-shop", str(home / "shop"), session_id)
            session.prompt("Make the totals right")
        config = Config(claude=ClaudeConfig(config_dirs=[str(home / ".claude")]))
        self.store = TranscriptSessions(LiveConfig(config), ProjectRegistry(self.core))


@pytest.fixture
def sessions(home):
    found = Sessions(home)
    yield found
    found.core.close()


def test_a_session_is_folded_from_its_transcript(sessions, home):
    """A session is known by its id, with the project it works in."""
    stored = sessions.store.session(ONE)

    assert (ONE, 1) == (stored.session_id, load(stored.fold).prompts)
    assert str(home / "shop") == sessions.core.project_root(stored.project_id)
    assert sessions.store.session(ONE) is stored


def test_only_sessions_that_were_asked_for_are_at_work(sessions):
    """Without a daemon the session that runs a command is the only one known to be at work."""
    assert [] == sessions.store.sessions(None, 9)

    stored = sessions.store.session(TWO)

    assert [stored] == sessions.store.sessions(stored.project_id, 9, headless=False)
    assert [] == sessions.store.sessions(stored.project_id, 9, headless=True)
    assert [] == sessions.store.sessions("another", 9)


def test_the_beginning_of_an_id(sessions):
    """Every session whose id begins so is found, and a pattern or a path finds none."""
    assert {ONE, TWO} == sessions.store.session_ids_like("aaaaaaaa-0")
    assert set() == sessions.store.session_ids_like("bbbbbb")
    for name in ("*", "../-shop/a", "[a]", "", "aaaa?"):
        assert set() == sessions.store.session_ids_like(name)
        assert sessions.store.session(name) is None


def test_unknown_configuration(home):
    """While the configuration cannot be read a thread can be used, and no other command."""
    path = home / "config/handoffd/config.toml"
    path.parent.mkdir(parents=True)
    path.write_text("[nope]\n")
    shared = run("thread", home, action="create", title="t", content="c")["id"]

    with pytest.raises(HandoffError, match="It stays open"):
        run("thread", home, action="close", id=shared)
    with pytest.raises(HandoffError, match="nope"):
        run("list", home)
    assert json.dumps(run("thread", home, action="get", id=shared)["result"])
