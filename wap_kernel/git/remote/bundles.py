"""Carry objects out of the workspace and into it, as bundles.

A bundle is a file with commits and all that belongs to them. Git makes it where the objects are, out of what is visible
there, so nothing that a workspace's repository merely points at (alternates, a `.git` file) can be among them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from secrets import token_hex

from wap_kernel.files.interface import NullGuard
from wap_kernel.git import output_parser
from wap_kernel.git.failure_messages import parse_git_error
from wap_kernel.git.local.sandboxed_git import RepositoryInfo, SandboxedGit
from wap_kernel.git.remote.server_repository import NO_VARIABLES, ServerRepository, Variables
from wap_kernel.model.errors import translate_os_error
from wap_kernel.model.git import names
from wap_kernel.model.git.results import GitError, GitFailureReason, build_git_error
from wap_kernel.model.limits import MAX_BUNDLE_BYTES

MAX_KNOWN_COMMITS = 200
_PIECE_BYTES = 8 * 1024 * 1024
ARRIVED_REF = "refs/wap/arrived"
_SET_REFS = """\
while [ $# -gt 0 ]; do
    if [ "$2" = - ]; then git update-ref -d "$1"; else git update-ref "$1" "$2"; fi || exit
    shift 2
done
"""


def export_commit(
    git: SandboxedGit,
    info: RepositoryInfo,
    server: ServerRepository,
    ref: str,
    limit: int = MAX_BUNDLE_BYTES,
    variables: Variables = NO_VARIABLES,
) -> str:
    """Copy `ref` of the workspace into the server's repository as ARRIVED_REF, and return its commit.

    `variables` are for git in the server's repository.
    """
    with server.temporary_file("out.bundle") as path:
        known = list(read_server_refs(server).values())[:MAX_KNOWN_COMMITS]
        ended = _write_bundle(git, info, path, (ref, *(f"^{one}" for one in known)), limit)
        if ended is not None and "empty bundle" in ended.failure.stderr:
            # The server has all of it already; so bundle the commit itself, with nothing to subtract.
            ended = _write_bundle(git, info, path, ("--max-count=1", ref), limit)
        if ended is not None:
            raise ended
        server.run("update-ref", "-d", ARRIVED_REF)
        options = ("--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance", "--refmap=")
        server.run(
            "fetch", *options, str(path), f"+{ref}:{ARRIVED_REF}", variables={**variables, "GIT_ALLOW_PROTOCOL": "file"}
        )
    return read_server_refs(server, ARRIVED_REF, variables=variables)[ARRIVED_REF]


def _write_bundle(
    git: SandboxedGit, info: RepositoryInfo, path: Path, what: Iterable[str], limit: int
) -> GitError | None:
    size = 0
    with open(path, "wb") as file:

        def take(piece: bytes) -> bool:
            nonlocal size
            size += len(piece)
            if size <= limit:
                file.write(piece)
            return size <= limit

        output = git.stream(info, "bundle", "create", "--quiet", "-", "--ignore-missing", *what, take=take)
    if size > limit:
        raise _too_large_error(limit)
    if output.truncated:
        raise build_git_error(GitFailureReason.CANCELLED, "The git operation was cancelled.", output.exit_code)
    return parse_git_error(output.exit_code, output.stderr) if output.exit_code else None


def import_commits(
    git: SandboxedGit, info: RepositoryInfo, server: ServerRepository, wanted: Mapping[str, str], known: Iterable[str]
) -> None:
    """Copy commits of the server's repository into the workspace's.

    `wanted` are refs of the server's repository, `known` commit ids of the workspace's.
    """
    common = _find_common_commits(server, known)
    for excluded in (common, []):  # the workspace may have lost what its refs promise; then everything is sent
        with server.temporary_file("in.bundle") as path:
            arguments = (*wanted, *(f"^{one}" for one in excluded))
            try:
                server.run("bundle", "create", "--quiet", str(path), *arguments)
            except GitError as error:
                if "empty bundle" in error.failure.stderr:
                    return
                raise
            if path.stat().st_size > MAX_BUNDLE_BYTES:
                raise _too_large_error(MAX_BUNDLE_BYTES)
            if _unbundle(git, info, path, last=not excluded):
                return


def _unbundle(git: SandboxedGit, info: RepositoryInfo, path: Path, *, last: bool) -> bool:
    files = git.provider.files.guarded_by(NullGuard())
    name = f".wap-{token_hex(8)}.bundle"
    try:
        with open(path, "rb") as file:
            files.replace(name, file.read(_PIECE_BYTES), exclusive=True, mode=0o600)
            while piece := file.read(_PIECE_BYTES):
                files.append(name, piece)
        accept = (0,) if last else (0, 1, 128)
        output = git.run(info, "bundle", "unbundle", f"{git.root}/{name}", accept=accept)
        return output.exit_code == 0
    except OSError as error:
        raise translate_os_error(error, name) from error
    finally:
        try:
            files.unlink(name)
        except OSError:
            pass  # it was never created, or a command in the workspace removed it


def set_refs(git: SandboxedGit, info: RepositoryInfo, changes: Mapping[str, str | None]) -> None:
    """Set refs of the workspace's repository; None removes a ref."""
    pairs = list(changes.items())
    for start in range(0, len(pairs), MAX_KNOWN_COMMITS):
        words = [word for name, value in pairs[start : start + MAX_KNOWN_COMMITS] for word in (name, value or "-")]
        output = git.run_script(_SET_REFS, words, folder=info.folder, info=info)
        if output.exit_code:
            raise parse_git_error(output.exit_code, output.stderr)


def read_server_refs(server: ServerRepository, *patterns: str, variables: Variables = NO_VARIABLES) -> dict[str, str]:
    """Return refs of the server's repository, by their full names."""
    _, stdout = server.run("for-each-ref", "--format=%(refname)%00%(objectname)", *patterns, variables=variables)
    return _parse_refs(stdout)


def read_workspace_refs(git: SandboxedGit, info: RepositoryInfo, *patterns: str) -> dict[str, str]:
    """Return refs of the workspace's repository, by their full names; the agent can forge them."""
    output = git.read(info, "for-each-ref", "--format=%(refname)%00%(objectname)", *patterns)
    return _parse_refs(output.stdout)


def _parse_refs(stdout: bytes) -> dict[str, str]:
    found = {}
    for line in output_parser.split_lines(stdout):
        name, _, identifier = line.partition("\0")
        if name.startswith("refs/") and names.is_commit_id(identifier):
            found[name] = identifier
    return found


def _find_common_commits(server: ServerRepository, identifiers: Iterable[str]) -> list[str]:
    """Return the commits among `identifiers` that the server's repository has too."""
    candidates = [one for one in dict.fromkeys(identifiers) if names.is_commit_id(one)][:MAX_KNOWN_COMMITS]
    if not candidates:
        return []
    _, stdout = server.run("rev-list", "--ignore-missing", "--no-walk", *candidates)
    return [one for one in stdout.decode("ascii", "replace").split() if names.is_commit_id(one)]


def _too_large_error(limit: int) -> GitError:
    return build_git_error(
        GitFailureReason.TOO_LARGE, f"The commits take more than {limit // 1024**2} MiB. A person transfers them."
    )
