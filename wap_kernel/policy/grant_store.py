"""Store the grants of a workspace in the state folder, where no tool can reach them."""

from __future__ import annotations

import secrets
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pydantic import ValidationError

from wap_kernel.model.errors import ProviderUnavailable
from wap_kernel.model.policy import Grant
from wap_kernel.model.text import utc_now
from wap_kernel.state.schema import connect


def new_grant_id() -> str:
    return secrets.token_hex(8)


@dataclass(frozen=True)
class StoredGrant:
    """A grant with its id, and who gave it when."""

    id: str
    grant: Grant
    created_at: str
    created_by: str


class GrantStore:
    """The grants of one workspace. Any thread may read them; other processes may change them meanwhile."""

    def __init__(self, state_dir: str, workspace: str) -> None:
        self._workspace = workspace
        self._lock = threading.Lock()
        self._connection = connect(state_dir)
        self._version: int | None = None
        self._cache: dict[str, Grant] = {}

    def all(self) -> dict[str, Grant]:
        """Return the grants by id, oldest first."""
        with self._lock:
            with _usable():
                (version,) = self._connection.execute("PRAGMA data_version").fetchone()
                if version != self._version:
                    self._cache = self._read()
                    self._version = version
            return dict(self._cache)

    def records(self) -> list[StoredGrant]:
        """Return the grants with who gave them when, oldest first."""
        with self._lock, _usable():
            rows = self._connection.execute(
                "SELECT id, body, created_at, created_by FROM grants WHERE workspace = ? ORDER BY created_at, id",
                (self._workspace,),
            ).fetchall()
        known = ((row, decode_grant(row[1])) for row in rows)
        return [StoredGrant(row[0], grant, row[2], row[3]) for row, grant in known if grant is not None]

    def add(self, grant: Grant, by: str) -> str:
        with self._lock, _usable():
            identifier = new_grant_id()
            self.insert(self._connection, identifier, grant, by)
            self._version = None  # changes of this connection do not count in data_version
        return identifier

    def insert(self, connection: sqlite3.Connection, identifier: str, grant: Grant, by: str) -> None:
        """Insert a grant in a transaction of the caller's."""
        connection.execute(
            "INSERT INTO grants (id, created_at, created_by, workspace, body) VALUES (?, ?, ?, ?, ?)",
            (identifier, utc_now(), by, self._workspace, grant.model_dump_json()),
        )

    def revoke(self, identifier: str) -> bool:
        """Delete a grant, and return whether there was one."""
        with self._lock, _usable():
            deleted = self._connection.execute(
                "DELETE FROM grants WHERE id = ? AND workspace = ?", (identifier, self._workspace)
            )
            self._version = None
            return deleted.rowcount > 0

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    def _read(self) -> dict[str, Grant]:
        rows = self._connection.execute(
            "SELECT id, body FROM grants WHERE workspace = ? ORDER BY created_at, id", (self._workspace,)
        )
        return {identifier: grant for identifier, body in rows if (grant := decode_grant(body)) is not None}


@contextmanager
def _usable() -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise ProviderUnavailable(
            "The grants cannot be read or written, so nothing is allowed that asks.", hint="The server's log says more."
        ) from error


def decode_grant(body: str) -> Grant | None:
    """Return the grant in `body`, or None where its form is unknown: such a grant allows nothing."""
    try:
        return Grant.model_validate_json(body)
    except ValidationError:
        return None
