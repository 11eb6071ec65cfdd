"""Credentials for remotes: who has one, and for whom it is.

A credential is given for one origin (scheme, host, port) and for no other. Its text is in a `Secret`, which shows
itself to nobody by accident.
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
"""What GitHub calls the user of a token."""
MAX_SECRET = 8192
MAX_KEPT = 16
"""Contents of one file that are remembered."""


class Secret:
    """A text that is not printed, compared or pickled by accident. `reveal` says that it is meant."""

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
    username: str
    secret: Secret


class CredentialSource(Protocol):
    """Where credentials come from."""

    @property
    def secret_paths(self) -> tuple[str, ...]:
        """Absolute paths that no tool and no command may read."""

    @property
    def secrets(self) -> tuple[str, ...]:
        """What may be good, handed out or not, to be taken out of whatever is told."""

    @property
    def fragments(self) -> tuple[str, ...]:
        """Parts of a secret that are taken out where they stand alone."""

    def credential(self, remote: Remote) -> Credential | None:
        """For this remote; None: it goes without. Raises a WapError that says what is wrong with the settings."""

    def forget(self, remote: Remote) -> bool:
        """The credential was refused. Whether it is worth asking for another one."""

    def identity(self) -> Person | None:
        """Who commits; None: nobody in particular."""


class NoCredential:
    """For remotes that everybody may read."""

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
    """A token in a file of the server, for one origin. Read at each use, so it can be renewed by replacing the file."""

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
            raise wrong_origin(remote)
        text = read_private(self._path, "token").strip()
        if not text or not text.isascii() or not text.isprintable() or " " in text:
            raise ProviderUnavailable("The token file does not hold a token.", hint="One line, and nothing else.")
        return Credential(self._username, Secret(text))

    def forget(self, remote: Remote) -> bool:
        return False

    def identity(self) -> Person | None:
        return self._identity


class SecretFile:
    """What a file has held since the server knows of it: one that was replaced may be good for a while yet. Whoever can
    read the file, and whether it is used or not."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._seen: tuple[tuple[int, ...], tuple[str, ...]] = ((), ())
        self.texts()

    def texts(self) -> tuple[str, ...]:
        """The newest first. Looked up each time, which is one call of the system for a file that is as it was."""
        sign, known = self._seen
        try:
            found = os.stat(self._path)
            current = (found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino)
            if current == sign or not stat.S_ISREG(found.st_mode):
                return known
            with open(self._path, "rb") as file:
                text = file.read(MAX_SECRET * 4).decode("utf-8", "replace")
        except OSError:
            return known  # whoever wants to use it is told why
        known = tuple(dict.fromkeys(filter(None, (text.strip(), *known))))[:MAX_KEPT]
        self._seen = (current, known)
        return known


def wrong_origin(remote: Remote) -> PermissionDenied:
    return PermissionDenied(
        f"The credential is for another host than {remote.origin}.", hint="Configure one for this remote."
    )


def read_private(path: str, what: str) -> str:
    """A file that nobody but the server's user can read; any other one is no secret any more."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with open(fd, "rb") as file:
            found = os.fstat(fd)
            if not stat.S_ISREG(found.st_mode):
                raise ProviderUnavailable(f"The {what} file is not a regular file.", hint="Name a file.")
            if found.st_mode & 0o077 or found.st_uid not in (os.geteuid(), 0):
                raise ProviderUnavailable(
                    f"The {what} file can be read by others than the server.", hint="Run chmod 600 on it."
                )
            data = file.read(MAX_SECRET * 4 + 1)
    except OSError as error:
        raise ProviderUnavailable(
            f"The {what} file cannot be read: {error.strerror}", hint="Check its path and its owner."
        ) from None
    if len(data) > MAX_SECRET * 4:
        raise ProviderUnavailable(f"The {what} file is too large.", hint="Name the right file.")
    return data.decode("utf-8", "replace")
