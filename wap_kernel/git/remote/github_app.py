"""The GitHub App as a source of credentials: short-lived tokens for one repository, and an identity for commits.

The App's private key signs a statement of some minutes (a JWT). For it GitHub gives an installation token, which is
narrowed here to the one repository and to its contents, and kept until shortly before it expires.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import quote, urlsplit

from wap_kernel.git.remote.api_client import Requests
from wap_kernel.git.remote.credentials import USERNAME, Credential, Secret, SecretFile, read_private, wrong_origin
from wap_kernel.model.errors import ProviderUnavailable
from wap_kernel.model.git.results import Person
from wap_kernel.policy.git_remotes import Remote

MARGIN = 300.0
"""Seconds before its end when a token is not used any more."""
_STATEMENT = 540
"""Seconds that a JWT is good for; GitHub takes ten minutes at most."""
_CLOCK_SKEW = 60
_BODY = re.compile(r"[A-Za-z0-9+/]{16,}={0,2}")
"""A line of a key in PEM form that tells something of it."""


@dataclass(frozen=True)
class _Token:
    secret: Secret
    expires_at: float


class GitHubApp:
    """`base_url` is where people see the repositories: https://github.com, or that of a GitHub Enterprise Server."""

    def __init__(
        self,
        app_id: str,
        key_file: str,
        *,
        installation_id: int | None = None,
        base_url: str = "https://github.com",
        api_url: str | None = None,
        identity: Person | None = None,
        ca_file: str | None = None,
        allow_http: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._app_id = app_id
        self._key_file = key_file
        self._installation_id = installation_id
        self._base_url = base_url.rstrip("/")
        self._requests = Requests(api_url or api_of(base_url), ca_file=ca_file, allow_http=allow_http)
        self._identity = identity
        self._clock = clock
        self._lock = threading.Lock()
        self._seen = SecretFile(key_file)
        self._lines: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
        self._tokens: dict[tuple[str, str], _Token] = {}
        self._given: tuple[_Token, ...] = ()
        """Those that are good yet, also when another is used by now. Read without the lock, which is held while GitHub
        is asked."""

    @property
    def secret_paths(self) -> tuple[str, ...]:
        return (self._key_file,)

    @property
    def secrets(self) -> tuple[str, ...]:
        now = self._clock()
        given = tuple(token.secret.reveal() for token in self._given if token.expires_at > now)
        return (*given, *self._seen.texts())

    @property
    def fragments(self) -> tuple[str, ...]:
        """The lines of the key: a diff, a search, a range of lines has them one by one."""
        keys = self._seen.texts()
        if self._lines[0] is not keys:
            lines = (line.strip() for key in keys for line in key.splitlines())
            self._lines = (keys, tuple(filter(_BODY.fullmatch, lines)))
        return self._lines[1]

    def credential(self, remote: Remote) -> Credential:
        if remote.origin != self._base_url:
            raise wrong_origin(remote)
        with self._lock:
            known = self._tokens.get(remote.repository)
            if known is None or known.expires_at - MARGIN <= self._clock():
                known = self._tokens[remote.repository] = self._new(*remote.repository)
                now = self._clock()
                self._given = (*(token for token in self._given if token.expires_at > now), known)
            return Credential(USERNAME, known.secret)

    def forget(self, remote: Remote) -> bool:
        with self._lock:
            return self._tokens.pop(remote.repository, None) is not None

    def identity(self) -> Person:
        with self._lock:
            if self._identity is None:
                self._identity = self._bot()
            return self._identity

    def _new(self, owner: str, name: str) -> _Token:
        if not owner or not name:
            raise ProviderUnavailable("The remote's address names no repository.", hint="Use .../owner/repository.git")
        installation = self._installation_id
        if installation is None:
            found = self._ask("GET", f"/repos/{quote(owner, safe='')}/{quote(name, safe='')}/installation")
            installation = int(found.get("id", 0))
        answer = self._ask(
            "POST",
            f"/app/installations/{installation}/access_tokens",
            {"repositories": [name], "permissions": {"contents": "write"}},
        )
        try:
            expires_at = datetime.fromisoformat(str(answer["expires_at"]).replace("Z", "+00:00")).timestamp()
            return _Token(Secret(str(answer["token"])), expires_at)
        except (LookupError, ValueError):
            raise ProviderUnavailable("GitHub's answer holds no token.", hint="Check the API's address.") from None

    def _bot(self) -> Person:
        """`{slug}[bot]`, with the address by which GitHub knows that it is the App's."""
        slug = str(self._ask("GET", "/app").get("slug", ""))
        name = f"{slug}[bot]"
        user = self._ask("GET", f"/users/{quote(name, safe='')}").get("id", "")
        host = urlsplit(self._base_url).hostname
        return Person(name, f"{user}+{name}@users.noreply.{host}")

    def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        return self._requests.send(method, path, self._statement(), body)

    def _statement(self) -> Secret:
        import jwt

        key = read_private(self._key_file, "private key")
        now = int(self._clock())
        claims = {"iat": now - _CLOCK_SKEW, "exp": now + _STATEMENT, "iss": self._app_id}
        try:
            return Secret(jwt.encode(claims, key, algorithm="RS256"))
        except (ValueError, TypeError, jwt.PyJWTError):
            # Nothing of the error is passed on: it may quote the key.
            raise ProviderUnavailable(
                "The private key file does not hold an RSA key in PEM form.", hint="Use the file that GitHub gave."
            ) from None


def api_of(base_url: str) -> str:
    """GitHub's own API has a host of its own; that of an Enterprise Server lies below it."""
    base = base_url.rstrip("/")
    return "https://api.github.com" if urlsplit(base).hostname == "github.com" else f"{base}/api/v3"
