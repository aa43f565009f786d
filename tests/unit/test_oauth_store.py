"""Clients, grants and secrets of OAuth in core.db: their ends, their limits, their one use."""

import contextlib
from pathlib import Path

import pytest

from handoffd.store import recovery
from handoffd.store.core import CoreStore
from handoffd.store.oauth import WAIT_SECONDS, WAITING_CLIENTS_MAX, WAITING_GRANTS_MAX

AT = 1000.0
DAY = 86400.0


@pytest.fixture
def core(tmp_path):
    """A core.db with one client."""
    found = CoreStore(str(tmp_path / "core.db"))
    assert found.oauth.add_client("a", "Claude", "{}", AT)
    yield found
    found.close()


def ask(core, client="a", name="1", at=AT):
    return core.oauth.ask(client, "{}", {"page": f"page {name}", "approval": f"ok {name}"}, at)


def grant(core, at=AT):
    """Begin a grant, approve it, and exchange it for tokens."""
    assert ask(core, at=at)
    assert core.oauth.approve("ok 1", at)
    assert core.oauth.exchange("page", "page 1", {"code": ("code", at + 60)}, at)
    tokens = {"access": ("access", at + 3600), "refresh": ("refresh", at + DAY)}
    assert core.oauth.exchange("code", "code", tokens, at)


def test_a_grant_from_its_request_to_its_end(core):
    """A secret finds its grant by its own kind, until it expires."""
    grant(core)

    found = core.oauth.find("access", "access", AT)
    assert ("a", True, False) == (found.client_id, found.approved, found.spent)
    assert core.oauth.find("refresh", "access", AT) is None
    assert core.oauth.find("access", "access", AT + 3600) is None
    assert core.oauth.find("refresh", "refresh", AT + 3600) is not None


def test_nothing_is_exchanged_before_the_approval(core):
    """A grant that nobody approved gives no code."""
    ask(core)

    assert not core.oauth.exchange("page", "page 1", {"code": ("code", AT + 60)}, AT)
    assert core.oauth.find("code", "code", AT) is None
    assert not core.oauth.find("page", "page 1", AT).spent


def test_an_approval_code_is_valid_once_and_for_a_time(core):
    """A code is not approved twice, nor after its end."""
    ask(core)
    ask(core, name="2")

    assert [True, False] == [core.oauth.approve("ok 1", AT) for _ in range(2)]
    assert not core.oauth.approve("ok 2", AT + WAIT_SECONDS)
    assert not core.oauth.approve("page 2", AT)


@pytest.mark.parametrize(("kind", "secret"), [("code", "code"), ("page", "page 1")])
def test_a_secret_that_is_spent_twice_ends_the_grant(core, kind, secret):
    """The second use of a secret adds none, and deletes those of the grant."""
    grant(core)

    assert not core.oauth.exchange(kind, secret, {"access": ("stolen", AT + 60)}, AT)
    for name in ("access", "refresh", "stolen"):
        assert core.oauth.find(name, name, AT) is None


def test_limits_of_what_waits(core):
    """Clients and grants that wait are limited; they make room when they expire."""
    grant(core)
    added = [core.oauth.add_client(f"c{n}", "", "{}", AT) for n in range(WAITING_CLIENTS_MAX + 1)]
    asked = [ask(core, name=f"n{n}") for n in range(WAITING_GRANTS_MAX + 1)]

    assert [True] * WAITING_CLIENTS_MAX + [False] == added
    assert [True] * WAITING_GRANTS_MAX + [False] == asked
    assert not ask(core, client="unknown", name="x")
    assert core.oauth.add_client("later", "", "{}", AT + WAIT_SECONDS)
    assert ["a", "later"] == [client.id for client in core.oauth.clients()]
    assert ask(core, name="later", at=AT + WAIT_SECONDS)


def test_a_client_goes_with_its_last_secret(core):
    """A client whose refresh token has expired is deleted with its grant."""
    grant(core)

    core.oauth.add_client("b", "", "{}", AT + DAY + 1)

    assert ["b"] == [client.id for client in core.oauth.clients()]


def test_a_revoked_client_leaves_nothing(core):
    """A client is deleted with its grants and secrets; another one stays."""
    grant(core)
    core.oauth.add_client("b", "", "{}", AT)

    core.oauth.revoke("a")

    assert ["b"] == [client.id for client in core.oauth.clients()]
    assert core.oauth.find("access", "access", AT) is None
    assert core.oauth.clients("a") == []


def test_the_time_of_a_client(core):
    """A client is listed with its first approval and the end of its last secret."""
    assert [("a", None, None)] == [(c.id, c.approved_at, c.ends_at) for c in core.oauth.clients()]
    grant(core)

    assert [(AT, AT + DAY)] == [(c.approved_at, c.ends_at) for c in core.oauth.clients("a")]


def test_a_revoked_client_does_not_come_back_from_the_copy(core):
    """If core.db is lost, its copy is used, but no client of it has access: one may be revoked."""
    grant(core)
    core.back_up()
    core.oauth.revoke("a")
    core.close()
    for path in Path(core.path).parent.glob("core.db*"):
        if not path.name.endswith(".backup"):
            path.unlink()

    found = recovery.recover(core.path, recovery.LOST)

    with contextlib.closing(CoreStore(core.path)) as mended:
        assert found.copy_at
        assert [] == mended.oauth.clients()
        assert mended.oauth.find("access", "access", AT) is None
