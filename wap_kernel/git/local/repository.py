"""One repository, and who asks about it: what all local operations need."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from wap_kernel.git import output_parser
from wap_kernel.git.local.sandboxed_git import SandboxedGit, GitOutput, RepositoryInfo
from wap_kernel.model.errors import PathClosed, PermissionDenied
from wap_kernel.model.git import names
from wap_kernel.model.git.results import Person, GitFailureReason, build_git_error
from wap_kernel.model.limits import MAX_GIT_OUTPUT_BYTES
from wap_kernel.model.paths import render_path, join_path

MAX_WORDS = 500
MAX_WORDS_BYTES = 64 * 1024
"""Of paths for one git process; beyond that there are several."""


@dataclass(frozen=True)
class Permits:
    """What policy says of a path, relative to the workspace."""

    may_read: Callable[[str], bool]
    may_write: Callable[[str], bool]


@dataclass(frozen=True)
class LocalRepository:
    git: SandboxedGit
    info: RepositoryInfo
    permits: Permits
    identity: Person | None = None
    """Who commits; None: whoever the repository's config names."""
    remote: str = "origin"
    """Under which name the workspace knows the remote."""

    @staticmethod
    def open(
        git: SandboxedGit, permits: Permits, *, folder: str = ".", identity: Person | None = None, remote: str = "origin"
    ) -> LocalRepository:
        """Look at the repository that `folder` lies in. Raises GitFailed when there is none."""
        return LocalRepository(git, git.inspect(folder), permits, identity, remote)

    def read(
        self, *arguments: str, accept: Sequence[int] = (0,), limit: int = MAX_GIT_OUTPUT_BYTES, partial: bool = False
    ) -> GitOutput:
        return self.git.read(self.info, *arguments, accept=accept, limit=limit, partial=partial)

    def change(self, *arguments: str, accept: Sequence[int] = (0,)) -> GitOutput:
        return self.git.run(self.info, *arguments, settings=self._identity(), accept=accept)

    def _identity(self) -> Iterator[tuple[str, str]]:
        if self.identity is not None:
            for who in ("user", "author", "committer"):
                yield f"{who}.name", self.identity.name
                yield f"{who}.email", self.identity.email

    # -- paths

    def workspace_path(self, path: str) -> str:
        """A path of the repository as the workspace knows it."""
        return join_path(self.info.folder, path.rstrip("/")) if path not in ("", ".") else self.info.folder

    def render_path(self, path: str) -> str:
        return render_path(join_path(self.info.folder, path) if path not in ("", ".") else self.info.folder)

    def may_read(self, path: str) -> bool:
        return self.permits.may_read(self.workspace_path(path))

    def may_write(self, path: str) -> bool:
        return self.permits.may_write(self.workspace_path(path))

    def resolve_paths(self, paths: Iterable[str]) -> tuple[str, ...]:
        """Paths of a caller as paths of the repository; one that policy does not show is refused."""
        found = tuple(dict.fromkeys(names.relative_to_repository(path, self.info.folder) for path in paths))
        for path in found:
            if not self.may_read(path):
                raise path_denied_error(self.render_path(path))
        return found

    # -- commits

    def find_commit(self, revision: str) -> str | None:
        """The id of a commit, or None."""
        ran = self.read(
            "rev-parse", "--verify", "--quiet", f"{names.check_revision(revision)}^{{commit}}", accept=(0, 1, 128)
        )
        found = ran.stdout.decode("ascii", "replace").strip()
        return found if ran.exit_code == 0 and names.is_commit_id(found) else None

    def require_commit(self, revision: str) -> str:
        found = self.find_commit(revision)
        if found is None and revision == "HEAD":
            raise build_git_error(GitFailureReason.NOTHING, "There is no commit yet.")
        if found is None:
            self.read("rev-parse", "--verify", f"{revision}^{{commit}}")  # git's own words about it
            raise AssertionError("rev-parse answers with an id or fails")
        return found

    def find_ref(self, name: str) -> str | None:
        """The id that a full name of a ref stands for, or None."""
        ran = self.read("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}", accept=(0, 1, 128))
        found = ran.stdout.decode("ascii", "replace").strip()
        return found if ran.exit_code == 0 and names.is_commit_id(found) else None

    def read_status(self, *paths: str, all_untracked: bool = False) -> output_parser.RawStatus:
        untracked = "all" if all_untracked else "normal"
        options = ("--porcelain=v2", "--branch", "-z", "--ahead-behind", "--renames", "--ignore-submodules=dirty")
        ran = self.read("status", *options, f"--untracked-files={untracked}", "--", *paths)
        return output_parser.parse_status(ran.stdout)


def read_current_branch(repository: LocalRepository) -> str:
    """The branch that is checked out."""
    ran = repository.read("symbolic-ref", "--quiet", "--short", "HEAD", accept=(0, 1))
    if ran.exit_code:
        raise build_git_error(GitFailureReason.DETACHED, "The head is detached, so there is no current branch. Check out a branch first.")
    return output_parser.decode_text(ran.stdout).strip()


def path_denied_error(path: str) -> PermissionDenied:
    return PathClosed(f"Policy does not allow this path: {path}", hint="Leave it out.", path=path)


def split_paths(paths: Iterable[str]) -> Iterator[tuple[str, ...]]:
    """`paths` in portions that fit on a command line."""
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
