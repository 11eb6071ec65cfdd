"""Decide which git remotes a workspace may reach, and which pushes a person must approve. Pure.

The address comes from policy or the server's settings. What the workspace's own config calls `origin` does not count:
the agent can write that file.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from fnmatch import fnmatchcase
from ipaddress import ip_address
from urllib.parse import unquote, urlsplit

from wap_kernel.model.errors import InvalidArgument, PermissionDenied
from wap_kernel.model.git import names

REMOTES_RULE = "git.remotes"
FORBIDDEN_CHARACTERS = frozenset(" '\"\\<>?#;")
"""Characters that end a path, or that some servers take for the end of a name: `..;` is `..` to them."""
_ENCODED = re.compile(r"%(?:20|[89a-f][0-9a-f])", re.IGNORECASE)
"""The only characters that may be encoded: spaces, and those beyond ASCII."""
PROTECTED_BRANCHES = ("main", "master", "release", "release/*", "production")


@dataclass(frozen=True)
class Remote:
    """A repository on another machine. `parse_remote` makes one from a checked address."""

    url: str
    name: str = "origin"
    protected: tuple[str, ...] = PROTECTED_BRANCHES
    """Patterns of the branches to which every push needs an approval of its own."""
    ca_file: str | None = None
    """A file of certificates to trust instead of the system's, for a private server."""

    @property
    def origin(self) -> str:
        """Return scheme, host and port, to which the credential belongs."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc}"

    @property
    def repository(self) -> tuple[str, str]:
        """Return owner and name, as GitHub has them."""
        path = urlsplit(self.url).path.strip("/").removesuffix(".git")
        owner, _, name = path.rpartition("/")
        return owner.rpartition("/")[2], name

    def is_protected(self, branch: str) -> bool:
        return any(fnmatchcase(branch, pattern) for pattern in self.protected)


def parse_remote(
    url: str,
    *,
    name: str = "origin",
    protected: tuple[str, ...] = PROTECTED_BRANCHES,
    ca_file: str | None = None,
    allow_http: bool = False,
) -> Remote:
    """Return the remote at `url`, or raise InvalidArgument.

    With `allow_http` an address on this machine itself needs no TLS.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise _bad_url() from None
    is_printable = url.isascii() and url.isprintable() and FORBIDDEN_CHARACTERS.isdisjoint(url)
    if not (is_printable and parts.hostname and _is_unambiguous(parts.path)) or port == 0 or "%" in parts.netloc:
        raise _bad_url()
    if parts.username is not None or parts.password is not None or "@" in parts.netloc:
        raise InvalidArgument(
            "A remote's address holds no user and no password.", hint="Configure the credential for the server."
        )
    if parts.scheme != "https" and not (parts.scheme == "http" and allow_http and _is_loopback(parts.hostname)):
        raise InvalidArgument("A remote is reached by https only.", hint="Use https://host/owner/repository.git")
    names.check_branch_name(name)
    if "/" in name:
        raise InvalidArgument(f"Not a name for a remote: {name!r}", hint="Use a plain word: origin.")
    return Remote(url, name, protected, ca_file)


def _is_unambiguous(path: str) -> bool:
    """Return whether every client and server takes `path` for the same names, none of which leads upwards.

    A pattern allows a path as it is written, and curl takes `%2e%2e` for `..`.
    """
    if "%" in _ENCODED.sub("", path):
        return False
    try:
        decoded = unicodedata.normalize("NFKC", unquote(path, errors="strict"))
    except UnicodeDecodeError:
        return False
    if decoded.count("/") != path.count("/") or not decoded.isprintable():
        return False
    is_printable = FORBIDDEN_CHARACTERS.isdisjoint(decoded.replace(" ", ""))
    return is_printable and all(name.strip(". ") for name in decoded.removeprefix("/").removesuffix("/").split("/"))


def refuse_remote(url: str, allowed: Sequence[str]) -> PermissionDenied | None:
    """Return the refusal of the remote at `url`, or None if one of the patterns allows it.

    The refusal does not quote the address.
    """
    if any(_allows(pattern, url) for pattern in allowed):
        return None
    return PermissionDenied(
        f"The remote is not among those that this server may reach (host {urlsplit(url).hostname}).",
        hint=f"Allowed are: {', '.join(allowed)}.",
        rule=REMOTES_RULE,
    )


def _allows(pattern: str, url: str) -> bool:
    allowed, actual = urlsplit(pattern), urlsplit(url)
    is_same_host = (allowed.scheme, allowed.netloc.casefold()) == (actual.scheme, actual.netloc.casefold())
    paths = {actual.path, actual.path.removesuffix(".git")}
    return is_same_host and any(fnmatchcase(path, allowed.path or "/*") for path in paths)


def _bad_url() -> InvalidArgument:
    return InvalidArgument("Not the address of a remote.", hint="Use https://host/owner/repository.git")


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class RemoteVerb(str, Enum):
    """A kind of remote action that policy can have a rule for. One push may be several of these."""

    FETCH = "git.fetch"
    PULL = "git.pull"
    CLONE = "git.clone"
    PUSH = "git.push"
    PUSH_PROTECTED = "git.push.protected"
    PUSH_FORCE = "git.push.force"
    PUSH_DELETE = "git.push.delete"

    @property
    def asks(self) -> bool:
        """Return whether a person must approve the action unless policy says otherwise."""
        return self in (RemoteVerb.PUSH_PROTECTED, RemoteVerb.PUSH_FORCE, RemoteVerb.PUSH_DELETE)


@dataclass(frozen=True)
class RemoteEffect:
    """An effect of a remote action that policy judges by itself."""

    verb: RemoteVerb
    text: str
    """The effect in words, for the person who decides."""


def list_remote_effects(
    action: str, remote: Remote, branch: str | None = None, **options: bool
) -> tuple[RemoteEffect, ...]:
    """Return the effects of `action` (fetch, pull, clone, push). The options `force` and `delete` are for push."""
    return tuple(_remote_effects(action, remote, branch, options))


def _remote_effects(
    action: str, remote: Remote, branch: str | None, options: dict[str, bool]
) -> Iterator[RemoteEffect]:
    where = remote.url
    if action != "push":
        yield RemoteEffect(RemoteVerb(f"git.{action}"), f"{action} from {where}")
        return
    what = branch or "the current branch"
    yield RemoteEffect(RemoteVerb.PUSH, f"push {what} to {where}")
    # Which branch is current is decided inside the workspace, so it counts as protected until it is known.
    if remote.protected if branch is None else remote.is_protected(branch):
        unnamed = f"push {what}, which may be a protected one, to {where}"
        named = f"push to the protected branch {branch} of {where}"
        yield RemoteEffect(RemoteVerb.PUSH_PROTECTED, named if branch else unnamed)
    if options.get("force"):
        yield RemoteEffect(RemoteVerb.PUSH_FORCE, f"overwrite {what} of {where}: commits there may be lost")
    if options.get("delete"):
        yield RemoteEffect(RemoteVerb.PUSH_DELETE, f"delete {what} of {where}")
