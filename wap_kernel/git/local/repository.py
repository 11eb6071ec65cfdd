"""One repository, and who asks about it: what all local operations need."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from wap_kernel.git import output_parser
from wap_kernel.git.local.sandboxed_git import Inside, Ran, Repository
from wap_kernel.model.errors import PathClosed, PermissionDenied
from wap_kernel.model.git import names
from wap_kernel.model.git.results import Person, Reason, failed
from wap_kernel.model.limits import MAX_GIT_OUTPUT_BYTES
from wap_kernel.model.paths import display, join

MAX_WORDS = 500
MAX_BYTES = 64 * 1024
"""Of paths for one git process; beyond that there are several."""


@dataclass(frozen=True)
class Permits:
    """What policy says of a path, relative to the workspace."""

    may_read: Callable[[str], bool]
    may_write: Callable[[str], bool]


@dataclass(frozen=True)
class Work:
    inside: Inside
    repository: Repository
    permits: Permits
    identity: Person | None = None
    """Who commits; None: whoever the repository's config names."""
    remote: str = "origin"
    """Under which name the workspace knows the remote."""

    @staticmethod
    def open(
        inside: Inside, permits: Permits, *, folder: str = ".", identity: Person | None = None, remote: str = "origin"
    ) -> Work:
        """Look at the repository that `folder` lies in. Raises GitFailed when there is none."""
        return Work(inside, inside.look(folder), permits, identity, remote)

    def read(
        self, *arguments: str, accept: Sequence[int] = (0,), limit: int = MAX_GIT_OUTPUT_BYTES, partial: bool = False
    ) -> Ran:
        return self.inside.read(self.repository, *arguments, accept=accept, limit=limit, partial=partial)

    def change(self, *arguments: str, accept: Sequence[int] = (0,)) -> Ran:
        return self.inside.git(self.repository, *arguments, settings=self._identity(), accept=accept)

    def _identity(self) -> Iterator[tuple[str, str]]:
        if self.identity is not None:
            for who in ("user", "author", "committer"):
                yield f"{who}.name", self.identity.name
                yield f"{who}.email", self.identity.email

    # -- paths

    def place(self, path: str) -> str:
        """A path of the repository as the workspace knows it."""
        return join(self.repository.folder, path.rstrip("/")) if path not in ("", ".") else self.repository.folder

    def shown(self, path: str) -> str:
        return display(join(self.repository.folder, path) if path not in ("", ".") else self.repository.folder)

    def may_read(self, path: str) -> bool:
        return self.permits.may_read(self.place(path))

    def may_write(self, path: str) -> bool:
        return self.permits.may_write(self.place(path))

    def literal(self, paths: Iterable[str]) -> tuple[str, ...]:
        """Paths of a caller as paths of the repository; one that policy does not show is refused."""
        found = tuple(dict.fromkeys(names.within(path, self.repository.folder) for path in paths))
        for path in found:
            if not self.may_read(path):
                raise denied(self.shown(path))
        return found

    # -- commits

    def find(self, revision: str) -> str | None:
        """The id of a commit, or None."""
        ran = self.read(
            "rev-parse", "--verify", "--quiet", f"{names.revision(revision)}^{{commit}}", accept=(0, 1, 128)
        )
        found = ran.stdout.decode("ascii", "replace").strip()
        return found if ran.exit_code == 0 and names.is_id(found) else None

    def commit(self, revision: str) -> str:
        found = self.find(revision)
        if found is None and revision == "HEAD":
            raise failed(Reason.NOTHING, "There is no commit yet.")
        if found is None:
            self.read("rev-parse", "--verify", f"{revision}^{{commit}}")  # git's own words about it
            raise AssertionError("rev-parse answers with an id or fails")
        return found

    def ref(self, name: str) -> str | None:
        """The id that a full name of a ref stands for, or None."""
        ran = self.read("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}", accept=(0, 1, 128))
        found = ran.stdout.decode("ascii", "replace").strip()
        return found if ran.exit_code == 0 and names.is_id(found) else None

    def status(self, *paths: str, all_untracked: bool = False) -> output_parser.RawStatus:
        untracked = "all" if all_untracked else "normal"
        options = ("--porcelain=v2", "--branch", "-z", "--ahead-behind", "--renames", "--ignore-submodules=dirty")
        ran = self.read("status", *options, f"--untracked-files={untracked}", "--", *paths)
        return output_parser.status(ran.stdout)


def current(work: Work) -> str:
    """The branch that is checked out."""
    ran = work.read("symbolic-ref", "--quiet", "--short", "HEAD", accept=(0, 1))
    if ran.exit_code:
        raise failed(Reason.DETACHED, "The head is detached, so there is no current branch. Check out a branch first.")
    return output_parser.text(ran.stdout).strip()


def denied(path: str) -> PermissionDenied:
    return PathClosed(f"Policy does not allow this path: {path}", hint="Leave it out.", path=path)


def portions(paths: Iterable[str]) -> Iterator[tuple[str, ...]]:
    """`paths` in portions that fit on a command line."""
    portion: list[str] = []
    size = 0
    for path in paths:
        length = len(path.encode("utf-8", "surrogateescape")) + 1
        if portion and (len(portion) >= MAX_WORDS or size + length > MAX_BYTES):
            yield tuple(portion)
            portion, size = [], 0
        portion.append(path)
        size += length
    if portion:
        yield tuple(portion)
