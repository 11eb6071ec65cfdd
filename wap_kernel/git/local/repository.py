"""A repository of the workspace together with the caller's permits: the base of all local operations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from wap_kernel.git import output_parser
from wap_kernel.git.local.sandboxed_git import GitOutput, RepositoryInfo, SandboxedGit
from wap_kernel.model.errors import PathClosed, PermissionDenied
from wap_kernel.model.git import names
from wap_kernel.model.git.results import GitFailureReason, Person, build_git_error
from wap_kernel.model.limits import MAX_GIT_OUTPUT_BYTES
from wap_kernel.model.paths import join_path, render_path

MAX_WORDS = 500
MAX_WORDS_BYTES = 64 * 1024
"""Bytes of paths on the command line of one git process; more paths take several processes."""


@dataclass(frozen=True)
class Permits:
    """Policy's decisions about a path, relative to the workspace."""

    may_read: Callable[[str], bool]
    may_write: Callable[[str], bool]


@dataclass(frozen=True)
class LocalRepository:
    """A repository of the workspace, as one caller may use it."""

    git: SandboxedGit
    info: RepositoryInfo
    permits: Permits
    identity: Person | None = None
    """The committer; None: the one that the repository's config names."""
    remote: str = "origin"
    """The name of the remote in the workspace's repository."""
    index: str | None = None
    """The path of another index than the repository's own."""

    @staticmethod
    def open(
        git: SandboxedGit,
        permits: Permits,
        *,
        folder: str = ".",
        identity: Person | None = None,
        remote: str = "origin",
    ) -> LocalRepository:
        """Open the repository that `folder` lies in; raise GitError when there is none."""
        return LocalRepository(git, git.inspect(folder), permits, identity, remote)

    def read(
        self, *arguments: str, accept: Sequence[int] = (0,), limit: int = MAX_GIT_OUTPUT_BYTES, partial: bool = False
    ) -> GitOutput:
        return self.git.read(self.info, *arguments, accept=accept, limit=limit, partial=partial, index=self.index)

    def change(self, *arguments: str, accept: Sequence[int] = (0,)) -> GitOutput:
        return self.git.run(self.info, *arguments, settings=self._identity(), accept=accept, index=self.index)

    def _identity(self) -> Iterator[tuple[str, str]]:
        if self.identity is not None:
            for who in ("user", "author", "committer"):
                yield f"{who}.name", self.identity.name
                yield f"{who}.email", self.identity.email

    # -- paths

    def workspace_path(self, path: str) -> str:
        """Return the path in the workspace of a path of the repository."""
        return join_path(self.info.folder, path.rstrip("/")) if path not in ("", ".") else self.info.folder

    def render_path(self, path: str) -> str:
        return render_path(join_path(self.info.folder, path) if path not in ("", ".") else self.info.folder)

    def may_read(self, path: str) -> bool:
        return self.permits.may_read(self.workspace_path(path))

    def may_write(self, path: str) -> bool:
        return self.permits.may_write(self.workspace_path(path))

    def resolve_paths(self, paths: Iterable[str]) -> tuple[str, ...]:
        """Return a caller's paths as paths of the repository; raise for one that policy does not show."""
        resolved = tuple(dict.fromkeys(names.relative_to_repository(path, self.info.folder) for path in paths))
        for path in resolved:
            if not self.may_read(path):
                raise path_denied_error(self.render_path(path))
        return resolved

    # -- commits

    def find_commit(self, revision: str) -> str | None:
        """Return the id of the commit that `revision` names, or None."""
        output = self.read(
            "rev-parse", "--verify", "--quiet", f"{names.check_revision(revision)}^{{commit}}", accept=(0, 1, 128)
        )
        commit = output.stdout.decode("ascii", "replace").strip()
        return commit if output.exit_code == 0 and names.is_commit_id(commit) else None

    def require_commit(self, revision: str) -> str:
        commit = self.find_commit(revision)
        if commit is None and revision == "HEAD":
            raise build_git_error(GitFailureReason.NOTHING, "There is no commit yet.")
        if commit is None:
            self.read("rev-parse", "--verify", f"{revision}^{{commit}}")  # git's own words about it
            raise AssertionError("rev-parse answers with an id or fails")
        return commit

    def find_ref(self, name: str) -> str | None:
        """Return the commit id of a ref, given by its full name, or None."""
        output = self.read("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}", accept=(0, 1, 128))
        commit = output.stdout.decode("ascii", "replace").strip()
        return commit if output.exit_code == 0 and names.is_commit_id(commit) else None

    def read_status(self, *paths: str, all_untracked: bool = False) -> output_parser.RawStatus:
        untracked = "all" if all_untracked else "normal"
        options = ("--porcelain=v2", "--branch", "-z", "--ahead-behind", "--renames", "--ignore-submodules=dirty")
        output = self.read("status", *options, f"--untracked-files={untracked}", "--", *paths)
        return output_parser.parse_status(output.stdout)


def read_current_branch(repository: LocalRepository) -> str:
    """Return the name of the branch that is checked out."""
    output = repository.read("symbolic-ref", "--quiet", "--short", "HEAD", accept=(0, 1))
    if output.exit_code:
        raise build_git_error(
            GitFailureReason.DETACHED, "The head is detached, so there is no current branch. Check out a branch first."
        )
    return output_parser.decode_text(output.stdout).strip()


def path_denied_error(path: str) -> PermissionDenied:
    return PathClosed(f"Policy does not allow this path: {path}", hint="Leave it out.", path=path)


def split_paths(paths: Iterable[str]) -> Iterator[tuple[str, ...]]:
    """Split `paths` into portions that fit on a command line."""
    portion: list[str] = []
    size = 0
    for path in paths:
        length = len(path.encode("utf-8", "surrogateescape")) + 1
        if portion and (len(portion) >= MAX_WORDS or size + length > MAX_WORDS_BYTES):
            yield tuple(portion)
            portion, size = [], 0
        portion.append(path)
        size += length
    if portion:
        yield tuple(portion)
