"""The GitHub App as a source of credentials: short-lived tokens for one repository, and an identity for commits.

The App's private key signs a statement that is valid for some minutes (a JWT). For it GitHub gives an installation
token, which is limited to the one repository and to its contents, and cached until shortly before it expires.

PyJWT, which signs, comes with the extra `[github]`; the other sources of credentials do without it.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from types import ModuleType
from typing import Any
from urllib.parse import quote, urlsplit

from wap_kernel.git.remote.api_client import ApiClient
from wap_kernel.git.remote.credentials import (
    USERNAME,
    Credential,
    Secret,
    SecretFile,
    read_private_file,
    wrong_origin_error,
)
from wap_kernel.model.errors import ProviderUnavailable
from wap_kernel.model.git.results import Person
from wap_kernel.policy.git_remotes import Remote

RENEWAL_SECONDS = 300.0
"""Seconds before a token's expiry at which it is renewed."""
_STATEMENT_SECONDS = 540
"""Seconds that a JWT is valid for; GitHub accepts ten minutes at most."""
_CLOCK_SKEW = 60
_KEY_LINE = re.compile(r"[A-Za-z0-9+/]{16,}={0,2}")
"""A line of a key in PEM form that holds a part of the key."""
INSTALL_EXTRA = "pip install 'wap-kernel[github]'"
"""The command that installs what signs for a GitHub App."""


@dataclass(frozen=True)
class _Token:
    secret: Secret
    expires_at: float


class GitHubApp:
    """A GitHub App. `base_url` is where people see the repositories: https://github.com, or an Enterprise Server's."""

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
        self._api = ApiClient(api_url or derive_api_url(base_url), ca_file=ca_file, allow_http=allow_http)
        self._identity = identity
        self._clock = clock
        self._lock = threading.Lock()
        self._seen = SecretFile(key_file)
        self._lines: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
        self._tokens: dict[tuple[str, str], _Token] = {}
        self._issued: tuple[_Token, ...] = ()
        """Tokens that are still valid, also those that were replaced.

        They are read without the lock, which is held during requests to GitHub.
        """

    @property
    def secret_paths(self) -> tuple[str, ...]:
        return (self._key_file,)

    @property
    def secrets(self) -> tuple[str, ...]:
        now = self._clock()
        issued = tuple(token.secret.reveal() for token in self._issued if token.expires_at > now)
        return (*issued, *self._seen.texts())

    @property
    def fragments(self) -> tuple[str, ...]:
        """Return the lines of the key: a diff, a search, a range of lines shows them one by one."""
        keys = self._seen.texts()
        if self._lines[0] is not keys:
            lines = (line.strip() for key in keys for line in key.splitlines())
            self._lines = (keys, tuple(filter(_KEY_LINE.fullmatch, lines)))
        return self._lines[1]

    def credential(self, remote: Remote) -> Credential:
        if remote.origin != self._base_url:
            raise wrong_origin_error(remote)
        with self._lock:
            known = self._tokens.get(remote.repository)
            if known is None or known.expires_at - RENEWAL_SECONDS <= self._clock():
                known = self._tokens[remote.repository] = self._request_token(*remote.repository)
                now = self._clock()
                self._issued = (*(token for token in self._issued if token.expires_at > now), known)
            return Credential(USERNAME, known.secret)

    def forget(self, remote: Remote) -> bool:
        with self._lock:
            return self._tokens.pop(remote.repository, None) is not None

    def identity(self) -> Person:
        with self._lock:
            if self._identity is None:
                self._identity = self._request_identity()
            return self._identity

    def _request_token(self, owner: str, name: str) -> _Token:
        if not owner or not name:
            raise ProviderUnavailable("The remote's address names no repository.", hint="Use .../owner/repository.git")
        installation = self._installation_id
        if installation is None:
            installed = self._send("GET", f"/repos/{quote(owner, safe='')}/{quote(name, safe='')}/installation")
            installation = int(installed.get("id", 0))
        issued = self._send(
            "POST",
            f"/app/installations/{installation}/access_tokens",
            {"repositories": [name], "permissions": {"contents": "write"}},
        )
        try:
            expires_at = datetime.fromisoformat(str(issued["expires_at"]).replace("Z", "+00:00")).timestamp()
            return _Token(Secret(str(issued["token"])), expires_at)
        except (LookupError, ValueError):
            raise ProviderUnavailable("GitHub's answer holds no token.", hint="Check the API's address.") from None

    def _request_identity(self) -> Person:
        """Return `{slug}[bot]`, with the address by which GitHub recognizes the App."""
        slug = str(self._send("GET", "/app").get("slug", ""))
        name = f"{slug}[bot]"
        user = self._send("GET", f"/users/{quote(name, safe='')}").get("id", "")
        host = urlsplit(self._base_url).hostname
        return Person(name, f"{user}+{name}@users.noreply.{host}")

    def _send(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        return self._api.send(method, path, self._sign_statement(), body)

    def _sign_statement(self) -> Secret:
        jwt = _import_jwt()
        key = read_private_file(self._key_file, "private key")
        now = int(self._clock())
        claims = {"iat": now - _CLOCK_SKEW, "exp": now + _STATEMENT_SECONDS, "iss": self._app_id}
        try:
            return Secret(jwt.encode(claims, key, algorithm="RS256"))
        except (ValueError, TypeError, jwt.PyJWTError):
            # The error is not passed on: it may quote the key.
            raise ProviderUnavailable(
                "The private key file does not hold an RSA key in PEM form.", hint="Use the file that GitHub gave."
            ) from None


def is_extra_installed() -> bool:
    """Return whether PyJWT and the cryptography that it signs with can be imported."""
    try:
        _import_jwt()
    except ProviderUnavailable:
        return False
    return True


def _import_jwt() -> ModuleType:
    """Import PyJWT on first use: most servers have no GitHub App."""
    try:
        import cryptography  # noqa: F401  # without it PyJWT can be imported and cannot sign with RSA
        import jwt
    except ImportError:
        raise ProviderUnavailable(
            "The GitHub App of WapExtension.git cannot sign its requests: PyJWT[crypto] is not installed.",
            hint=f"Run {INSTALL_EXTRA} and restart the server.",
        ) from None
    return jwt


def derive_api_url(base_url: str) -> str:
    """Return the address of the API: GitHub's has a host of its own, that of an Enterprise Server lies below it."""
    base = base_url.rstrip("/")
    return "https://api.github.com" if urlsplit(base).hostname == "github.com" else f"{base}/api/v3"
