"""Hold credentials for remotes, each for one origin (scheme, host, port) and for no other.

The text of a credential is in a `Secret`, which is not printed by accident.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from typing import Protocol

from wap_kernel.model.errors import PermissionDenied, ProviderUnavailable
from wap_kernel.model.git.results import Person
from wap_kernel.policy.git_remotes import Remote

USERNAME = "x-access-token"
"""The user name that GitHub expects with a token."""
MAX_SECRET_CHARACTERS = 8192
MAX_REMEMBERED = 16
"""Earlier contents of one secret file that the server remembers."""


class Secret:
    """A text that is not printed, compared or pickled by accident; `reveal` returns it."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return "Secret(***)"

    def __reduce__(self) -> str:
        raise TypeError("a secret is not stored")


@dataclass(frozen=True)
class Credential:
    """A user name and its secret, for one origin."""

    username: str
    secret: Secret


class CredentialSource(Protocol):
    """A source of credentials for remotes."""

    @property
    def secret_paths(self) -> tuple[str, ...]:
        """Return absolute paths that no tool and no command may read."""

    @property
    def secrets(self) -> tuple[str, ...]:
        """Return every secret that may still be valid, in use or not, so that results can be redacted."""

    @property
    def fragments(self) -> tuple[str, ...]:
        """Return parts of a secret that are redacted where they stand alone."""

    def credential(self, remote: Remote) -> Credential | None:
        """Return the credential for `remote`, or None if it needs none; raise a WapError for wrong settings."""

    def forget(self, remote: Remote) -> bool:
        """Drop a credential that the remote refused, and return whether another attempt is worthwhile."""

    def identity(self) -> Person | None:
        """Return the committer, or None if the source names none."""


class NoCredential:
    """The source for remotes that need no credential."""

    secret_paths: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()
    fragments: tuple[str, ...] = ()

    def __init__(self, identity: Person | None = None) -> None:
        self._identity = identity

    def credential(self, remote: Remote) -> Credential | None:
        return None

    def forget(self, remote: Remote) -> bool:
        return False

    def identity(self) -> Person | None:
        return self._identity


class TokenFile:
    """A token in a file of the server, for one origin. It is read at each use, so replacing the file renews it."""

    fragments: tuple[str, ...] = ()

    def __init__(self, path: str, *, origin: str, username: str = USERNAME, identity: Person | None = None) -> None:
        self._path = path
        self._origin = origin.rstrip("/")
        self._username = username
        self._identity = identity
        self._seen = SecretFile(path)

    @property
    def secrets(self) -> tuple[str, ...]:
        return self._seen.texts()

    @property
    def secret_paths(self) -> tuple[str, ...]:
        return (os.path.abspath(self._path),)

    def credential(self, remote: Remote) -> Credential | None:
        if remote.origin != self._origin:
            raise wrong_origin_error(remote)
        text = read_private_file(self._path, "token").strip()
        if not text or not text.isascii() or not text.isprintable() or " " in text:
            raise ProviderUnavailable(
                "The token file does not hold a token.", hint="Put the token on one line, and nothing else."
            )
        return Credential(self._username, Secret(text))

    def forget(self, remote: Remote) -> bool:
        return False

    def identity(self) -> Person | None:
        return self._identity


class SecretFile:
    """The contents of a secret file, with earlier ones: a secret that was replaced may be valid for a while yet.

    They are remembered for redaction, whatever the file's mode is and whether the secret is used or not.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._seen: tuple[tuple[int, ...], tuple[str, ...]] = ((), ())
        self.texts()

    def texts(self) -> tuple[str, ...]:
        """Return the contents, newest first. For an unchanged file each call costs one stat."""
        stamp, known = self._seen
        try:
            status = os.stat(self._path)
            current = (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino)
            if current == stamp or not stat.S_ISREG(status.st_mode):
                return known
            with open(self._path, "rb") as file:
                text = file.read(MAX_SECRET_CHARACTERS * 4).decode("utf-8", "replace")
        except OSError:
            return known  # the one who uses the credential gets the error
        known = tuple(dict.fromkeys(filter(None, (text.strip(), *known))))[:MAX_REMEMBERED]
        self._seen = (current, known)
        return known


def wrong_origin_error(remote: Remote) -> PermissionDenied:
    return PermissionDenied(
        f"The credential is for another host than {remote.origin}.", hint="Configure one for this remote."
    )


def read_private_file(path: str, what: str) -> str:
    """Return the contents of a file that only the server's user can read; raise for any other file."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with open(fd, "rb") as file:
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode):
                raise ProviderUnavailable(f"The {what} file is not a regular file.", hint="Name a file.")
            if status.st_mode & 0o077 or status.st_uid not in (os.geteuid(), 0):
                raise ProviderUnavailable(
                    f"The {what} file can be read by others than the server.", hint="Run chmod 600 on it."
                )
            data = file.read(MAX_SECRET_CHARACTERS * 4 + 1)
    except OSError as error:
        raise ProviderUnavailable(
            f"The {what} file cannot be read: {error.strerror}", hint="Check its path and its owner."
        ) from None
    if len(data) > MAX_SECRET_CHARACTERS * 4:
        raise ProviderUnavailable(f"The {what} file is too large.", hint="Name the right file.")
    return data.decode("utf-8", "replace")
