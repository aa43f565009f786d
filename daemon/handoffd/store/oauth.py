"""The clients of OAuth, their grants, and the secrets of these, which are kept only as hashes.

A grant begins with a client's request. The person approves it, the client exchanges it for tokens,
and it ends with the last of them. Secrets are long and random, so a hash without salt is enough.
"""

import hashlib
import sqlite3
from collections.abc import Mapping
from typing import NamedTuple

from handoffd.store.database import transaction

# A client that nobody has approved by then is deleted, and so is a request.
WAIT_SECONDS = 600.0
# Anybody may register, so the number of rows is limited.
WAITING_CLIENTS_MAX = 32
WAITING_GRANTS_MAX = 3

OAUTH_SQL = (
    """CREATE TABLE oauth_clients (
        id TEXT PRIMARY KEY,
        name TEXT NOT NULL,
        metadata TEXT NOT NULL,
        created_at REAL NOT NULL
    )""",
    """CREATE TABLE oauth_grants (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        client_id TEXT NOT NULL REFERENCES oauth_clients(id) ON DELETE CASCADE,
        request TEXT NOT NULL,
        asked_at REAL NOT NULL,
        approved_at REAL
    )""",
    "CREATE INDEX oauth_grants_client ON oauth_grants (client_id)",
    # The kind is page, approval, code, access or refresh.
    """CREATE TABLE oauth_secrets (
        hash TEXT PRIMARY KEY,
        kind TEXT NOT NULL,
        grant_id INTEGER NOT NULL REFERENCES oauth_grants(id) ON DELETE CASCADE,
        expires_at REAL NOT NULL,
        spent INTEGER NOT NULL DEFAULT 0
    )""",
    "CREATE INDEX oauth_secrets_grant ON oauth_secrets (grant_id)",
)
TABLES = ("oauth_secrets", "oauth_grants", "oauth_clients")


class OAuthClient(NamedTuple):
    id: str
    name: str
    # What the client registered, as JSON.
    metadata: str
    # When its first grant was approved, and when the last secret of its grants expires.
    approved_at: float | None
    ends_at: float | None


class OAuthGrant(NamedTuple):
    """A grant, as found by one of its secrets, which may be spent already."""

    id: int
    client_id: str
    # The parameters of the client's request, as JSON.
    request: str
    approved: bool
    expires_at: float
    spent: bool


class OAuthStore:
    """The clients, grants and secrets in one database."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def add_client(self, client_id: str, name: str, metadata: str, at: float) -> bool:
        """Add a client; return False if too many wait for approval."""
        with transaction(self._db):
            self._sweep(at)
            waiting = """SELECT count(*) FROM oauth_clients WHERE id NOT IN (
                SELECT client_id FROM oauth_grants WHERE approved_at IS NOT NULL)"""
            if self._db.execute(waiting).fetchone()[0] >= WAITING_CLIENTS_MAX:
                return False
            self._db.execute(
                "INSERT INTO oauth_clients (id, name, metadata, created_at) VALUES (?, ?, ?, ?)",
                (client_id, name, metadata, at),
            )
        return True

    def clients(self, client_id: str = "") -> list[OAuthClient]:
        """Return all clients, or those whose id begins so, the oldest first."""
        rows = self._db.execute(
            """SELECT id, name, metadata,
                (SELECT min(approved_at) FROM oauth_grants WHERE client_id = oauth_clients.id),
                (SELECT max(expires_at) FROM oauth_secrets JOIN oauth_grants
                    ON oauth_grants.id = grant_id WHERE client_id = oauth_clients.id)
            FROM oauth_clients WHERE substr(id, 1, ?) = ? ORDER BY created_at""",
            (len(client_id), client_id),
        )
        return [OAuthClient(*row) for row in rows]

    def revoke(self, client_id: str) -> None:
        """Delete a client with its grants and secrets."""
        with transaction(self._db):
            self._db.execute("DELETE FROM oauth_clients WHERE id = ?", (client_id,))

    def ask(self, client_id: str, request: str, secrets: Mapping[str, str], at: float) -> bool:
        """Begin a grant; return False if the client is unknown or too many of its grants wait."""
        with transaction(self._db):
            self._sweep(at)
            waiting = self._db.execute(
                "SELECT count(*) FROM oauth_grants WHERE client_id = ? AND approved_at IS NULL",
                (client_id,),
            ).fetchone()[0]
            if waiting >= WAITING_GRANTS_MAX:
                return False
            grant = self._db.execute(
                """INSERT INTO oauth_grants (client_id, request, asked_at)
                SELECT id, ?, ? FROM oauth_clients WHERE id = ?""",
                (request, at, client_id),
            )
            if not grant.rowcount or grant.lastrowid is None:
                return False
            ends = {kind: (secret, at + WAIT_SECONDS) for kind, secret in secrets.items()}
            self._add_secrets(grant.lastrowid, ends)
        return True

    def find(self, kind: str, secret: str, at: float) -> OAuthGrant | None:
        """Return the grant of a secret that has not expired."""
        row = self._db.execute(
            """SELECT oauth_grants.id, client_id, request, approved_at IS NOT NULL, expires_at,
                spent
            FROM oauth_secrets JOIN oauth_grants ON oauth_grants.id = grant_id
            WHERE hash = ? AND kind = ? AND expires_at > ?""",
            (_hash(secret), kind, at),
        ).fetchone()
        return OAuthGrant(*row) if row else None

    def approve(self, code: str, at: float) -> bool:
        """Approve the grant of an approval code; return False if there is none that waits."""
        with transaction(self._db):
            grant = self.find("approval", code, at)
            if grant is None or grant.spent:
                return False
            self._db.execute("UPDATE oauth_grants SET approved_at = ? WHERE id = ?", (at, grant.id))
            self._db.execute("UPDATE oauth_secrets SET spent = 1 WHERE hash = ?", (_hash(code),))
        return True

    def exchange(
        self, kind: str, secret: str, new: Mapping[str, tuple[str, float]], at: float
    ) -> bool:
        """Spend a secret of an approved grant, and add new ones with the times of their end.

        A secret that is spent twice was stolen, or its thief was first: the grant ends, and False
        is returned.
        """
        with transaction(self._db):
            self._sweep(at)
            grant = self.find(kind, secret, at)
            if grant is None or not grant.approved:
                return False
            if grant.spent:
                self._db.execute("DELETE FROM oauth_grants WHERE id = ?", (grant.id,))
                return False
            self._db.execute("UPDATE oauth_secrets SET spent = 1 WHERE hash = ?", (_hash(secret),))
            self._add_secrets(grant.id, new)
        return True

    def end(self, secret: str) -> None:
        """End the grant of a secret: all its tokens are invalid from then on."""
        with transaction(self._db):
            self._db.execute(
                """DELETE FROM oauth_grants
                WHERE id IN (SELECT grant_id FROM oauth_secrets WHERE hash = ?)""",
                (_hash(secret),),
            )

    def _add_secrets(self, grant_id: int, new: Mapping[str, tuple[str, float]]) -> None:
        self._db.executemany(
            "INSERT INTO oauth_secrets (hash, kind, grant_id, expires_at) VALUES (?, ?, ?, ?)",
            [(_hash(secret), kind, grant_id, end) for kind, (secret, end) in new.items()],
        )

    def _sweep(self, at: float) -> None:
        """Delete expired secrets, grants without a secret, and old clients without a grant."""
        self._db.execute("DELETE FROM oauth_secrets WHERE expires_at <= ?", (at,))
        self._db.execute(
            "DELETE FROM oauth_grants WHERE id NOT IN (SELECT grant_id FROM oauth_secrets)"
        )
        self._db.execute(
            """DELETE FROM oauth_clients WHERE created_at <= ?
            AND id NOT IN (SELECT client_id FROM oauth_grants)""",
            (at - WAIT_SECONDS,),
        )


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
