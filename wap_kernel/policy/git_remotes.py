"""Where a workspace may push to and fetch from, and what a person may be asked about it. Pure.

The address comes from policy or the server's settings. What the workspace's own config calls `origin` is of no
importance: it can be written by whoever works there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from fnmatch import fnmatchcase
from ipaddress import ip_address
from urllib.parse import urlsplit

from wap_kernel.model.errors import InvalidArgument, PermissionDenied
from wap_kernel.model.git import names

RULE = "git.remotes"
PROTECTED = ("main", "master", "release", "release/*", "production")


@dataclass(frozen=True)
class Remote:
    """A repository elsewhere. `check` has been passed; make it with `remote`."""

    url: str
    name: str = "origin"
    protected: tuple[str, ...] = PROTECTED
    """Patterns of branches to which a push is a question of its own."""
    ca_file: str | None = None
    """Certificates to trust instead of the system's, for a server within the house."""

    @property
    def origin(self) -> str:
        """Scheme, host and port: who gets the credential."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc}"

    @property
    def repository(self) -> tuple[str, str]:
        """Owner and name, as GitHub has them."""
        path = urlsplit(self.url).path.strip("/").removesuffix(".git")
        owner, _, name = path.rpartition("/")
        return owner.rpartition("/")[2], name

    def is_protected(self, branch: str) -> bool:
        return any(fnmatchcase(branch, pattern) for pattern in self.protected)


def remote(
    url: str,
    *,
    name: str = "origin",
    protected: tuple[str, ...] = PROTECTED,
    ca_file: str | None = None,
    allow_http: bool = False,
) -> Remote:
    """Check and make one. `allow_http`: also without TLS, to this machine itself only."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise _bad_url() from None
    is_plain_text = url.isascii() and url.isprintable() and not any(character in url for character in " '\"\\<>")
    if not (is_plain_text and parts.hostname and parts.path.strip("/")) or port == 0 or parts.query or parts.fragment:
        raise _bad_url()
    if parts.username is not None or parts.password is not None or "@" in parts.netloc:
        raise InvalidArgument(
            "A remote's address holds no user and no password.", hint="Configure the credential for the server."
        )
    if parts.scheme != "https" and not (parts.scheme == "http" and allow_http and _is_loopback(parts.hostname)):
        raise InvalidArgument("A remote is reached by https only.", hint="Use https://host/owner/repository.git")
    if any(part in (".", "..") for part in parts.path.split("/")):
        raise _bad_url()
    names.check_branch_name(name)
    if "/" in name:
        raise InvalidArgument(f"Not a name for a remote: {name!r}", hint="Use a plain word: origin.")
    return Remote(url, name, protected, ca_file)


def refusal(url: str, allowed: Sequence[str]) -> PermissionDenied | None:
    """Why the remote at `url` may not be reached, which is not quoted; None if one of the patterns allows it."""
    if any(_allows(pattern, url) for pattern in allowed):
        return None
    return PermissionDenied(
        f"The remote is not among those that this server may reach (host {urlsplit(url).hostname}).",
        hint=f"Allowed are: {', '.join(allowed)}.",
        rule=RULE,
    )


def _allows(pattern: str, url: str) -> bool:
    wanted, found = urlsplit(pattern), urlsplit(url)
    same_place = (wanted.scheme, wanted.netloc.casefold()) == (found.scheme, found.netloc.casefold())
    paths = {found.path, found.path.removesuffix(".git")}
    return same_place and any(fnmatchcase(path, wanted.path or "/*") for path in paths)


def _bad_url() -> InvalidArgument:
    return InvalidArgument("Not the address of a remote.", hint="Use https://host/owner/repository.git")


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class Verb(str, Enum):
    """What policy has a rule for. A push may be several of these at once."""

    FETCH = "git.fetch"
    PULL = "git.pull"
    CLONE = "git.clone"
    PUSH = "git.push"
    PUSH_PROTECTED = "git.push.protected"
    PUSH_FORCE = "git.push.force"
    PUSH_DELETE = "git.push.delete"

    @property
    def asks(self) -> bool:
        """Whether a person is asked unless policy says otherwise."""
        return self in (Verb.PUSH_PROTECTED, Verb.PUSH_FORCE, Verb.PUSH_DELETE)


@dataclass(frozen=True)
class Question:
    verb: Verb
    text: str
    """What would happen, for the person who decides."""


def questions(action: str, remote: Remote, branch: str | None = None, **options: bool) -> tuple[Question, ...]:
    """What policy is to be asked before `action` (fetch, pull, clone, push); `force` and `delete` are for push."""
    return tuple(_questions(action, remote, branch, options))


def _questions(action: str, remote: Remote, branch: str | None, options: dict[str, bool]) -> Iterator[Question]:
    where = remote.url
    if action != "push":
        yield Question(Verb(f"git.{action}"), f"{action} from {where}")
        return
    what = branch or "the current branch"
    yield Question(Verb.PUSH, f"push {what} to {where}")
    # Which branch is current is decided inside the workspace, so it counts as protected until it is known.
    if remote.protected if branch is None else remote.is_protected(branch):
        unnamed = f"push {what}, which may be a protected one, to {where}"
        named = f"push to the protected branch {branch} of {where}"
        yield Question(Verb.PUSH_PROTECTED, named if branch else unnamed)
    if options.get("force"):
        yield Question(Verb.PUSH_FORCE, f"overwrite {what} of {where}: commits there may be lost")
    if options.get("delete"):
        yield Question(Verb.PUSH_DELETE, f"delete {what} of {where}")
