"""Objects on their way out of the workspace and into it, as bundles.

A bundle is a file with commits and all that belongs to them. It is made where the objects are, out of what is visible
there, so nothing that a workspace's repository merely points at (alternates, a `.git` file) can be among them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from secrets import token_hex

from wap_kernel.files.unguarded import Unguarded
from wap_kernel.git import output_parser
from wap_kernel.git.failure_messages import explained
from wap_kernel.git.local.sandboxed_git import Inside, Repository
from wap_kernel.git.remote.server_repository import NO_VARIABLES, Host, Variables
from wap_kernel.model.errors import from_os_error
from wap_kernel.model.git import names
from wap_kernel.model.git.results import GitFailed, Reason, failed
from wap_kernel.model.limits import MAX_BUNDLE_BYTES

MAX_KNOWN = 200
_PIECE = 8 * 1024 * 1024
ARRIVED = "refs/wap/arrived"
_SET_REFS = """\
while [ $# -gt 0 ]; do
    if [ "$2" = - ]; then git update-ref -d "$1"; else git update-ref "$1" "$2"; fi || exit
    shift 2
done
"""


def take_out(
    inside: Inside,
    repository: Repository,
    host: Host,
    ref: str,
    limit: int = MAX_BUNDLE_BYTES,
    variables: Variables = NO_VARIABLES,
) -> str:
    """Bring `ref` of the workspace into the server's repository; returns its commit, which ARRIVED keeps. `variables`
    are for git there."""
    with host.temporary("out.bundle") as path:
        known = list(refs(host).values())[:MAX_KNOWN]
        ended = _write_bundle(inside, repository, path, (ref, *(f"^{one}" for one in known)), limit)
        if ended is not None and "empty bundle" in ended.failure.stderr:
            # All of it is known already; so ask for the commit itself, with nothing to subtract.
            ended = _write_bundle(inside, repository, path, ("--max-count=1", ref), limit)
        if ended is not None:
            raise ended
        host.git("update-ref", "-d", ARRIVED)
        options = ("--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance", "--refmap=")
        host.git(
            "fetch", *options, str(path), f"+{ref}:{ARRIVED}", variables={**variables, "GIT_ALLOW_PROTOCOL": "file"}
        )
    return refs(host, ARRIVED, variables=variables)[ARRIVED]


def _write_bundle(
    inside: Inside, repository: Repository, path: Path, what: Iterable[str], limit: int
) -> GitFailed | None:
    size = 0
    with open(path, "wb") as file:

        def take(piece: bytes) -> bool:
            nonlocal size
            size += len(piece)
            if size <= limit:
                file.write(piece)
            return size <= limit

        ran = inside.stream(repository, "bundle", "create", "--quiet", "-", "--ignore-missing", *what, take=take)
    if size > limit:
        raise _too_large(limit)
    if ran.truncated:
        raise failed(Reason.CANCELLED, "It was cancelled.", ran.exit_code)
    return explained(ran.exit_code, ran.stderr) if ran.exit_code else None


def bring_in(
    inside: Inside, repository: Repository, host: Host, wanted: Mapping[str, str], known: Iterable[str]
) -> None:
    """Bring commits of the server's repository into the workspace's: `wanted` are refs here, `known` ids there."""
    held = _held(host, known)
    for excluded in (held, []):  # the workspace may have lost what its refs promise; then everything is sent
        with host.temporary("in.bundle") as path:
            arguments = (*wanted, *(f"^{one}" for one in excluded))
            try:
                host.git("bundle", "create", "--quiet", str(path), *arguments)
            except GitFailed as error:
                if "empty bundle" in error.failure.stderr:
                    return
                raise
            if path.stat().st_size > MAX_BUNDLE_BYTES:
                raise _too_large(MAX_BUNDLE_BYTES)
            if _unbundle(inside, repository, path, last=not excluded):
                return


def _unbundle(inside: Inside, repository: Repository, path: Path, *, last: bool) -> bool:
    files = inside.provider.files.guarded_by(Unguarded())
    name = f".wap-{token_hex(8)}.bundle"
    try:
        with open(path, "rb") as file:
            files.replace(name, file.read(_PIECE), exclusive=True, mode=0o600)
            while piece := file.read(_PIECE):
                files.append(name, piece)
        accept = (0,) if last else (0, 1, 128)
        ran = inside.git(repository, "bundle", "unbundle", f"{inside.root}/{name}", accept=accept)
        return ran.exit_code == 0
    except OSError as error:
        raise from_os_error(error, name) from error
    finally:
        try:
            files.unlink(name)
        except OSError:
            pass  # it was never made, or somebody inside removed it


def set_refs(inside: Inside, repository: Repository, changes: Mapping[str, str | None]) -> None:
    """Set refs of the workspace's repository; None removes one."""
    pairs = list(changes.items())
    for start in range(0, len(pairs), MAX_KNOWN):
        words = [word for name, value in pairs[start : start + MAX_KNOWN] for word in (name, value or "-")]
        ran = inside.shell(_SET_REFS, words, folder=repository.folder, repository=repository)
        if ran.exit_code:
            raise explained(ran.exit_code, ran.stderr)


def refs(host: Host, *patterns: str, variables: Variables = NO_VARIABLES) -> dict[str, str]:
    """Refs of the server's repository, by their full names."""
    _, stdout = host.git("for-each-ref", "--format=%(refname)%00%(objectname)", *patterns, variables=variables)
    return _pairs(stdout)


def refs_inside(inside: Inside, repository: Repository, *patterns: str) -> dict[str, str]:
    """The same of the workspace's. Whoever works there decides what they say."""
    ran = inside.read(repository, "for-each-ref", "--format=%(refname)%00%(objectname)", *patterns)
    return _pairs(ran.stdout)


def _pairs(stdout: bytes) -> dict[str, str]:
    found = {}
    for line in output_parser.rows(stdout):
        name, _, identifier = line.partition("\0")
        if name.startswith("refs/") and names.is_id(identifier):
            found[name] = identifier
    return found


def _held(host: Host, identifiers: Iterable[str]) -> list[str]:
    """The commits among `identifiers` that the server has too."""
    asked = [one for one in dict.fromkeys(identifiers) if names.is_id(one)][:MAX_KNOWN]
    if not asked:
        return []
    _, stdout = host.git("rev-list", "--ignore-missing", "--no-walk", *asked)
    return [one for one in stdout.decode("ascii", "replace").split() if names.is_id(one)]


def _too_large(limit: int) -> GitFailed:
    return failed(Reason.TOO_LARGE, f"The commits take more than {limit // 1024**2} MiB. A person transfers them.")
