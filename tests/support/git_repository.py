"""A workspace with a repository, driven by the tools and, from outside, by git as a person runs it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.provider_workspace import LONG, Scene
from wap_kernel.git.local.repository import LocalRepository, Permits
from wap_kernel.git.local.sandboxed_git import SandboxedGit
from wap_kernel.model.command import Confinement
from wap_kernel.model.git.results import GitError, GitFailureReason, Person

PLAIN = {
    "PATH": os.environ["PATH"],
    "HOME": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_AUTHOR_NAME": "Ada",
    "GIT_AUTHOR_EMAIL": "ada@example.org",
    "GIT_COMMITTER_NAME": "Ada",
    "GIT_COMMITTER_EMAIL": "ada@example.org",
    "LC_ALL": "C",
}
BOT = Person("emergent-app[bot]", "1+emergent-app[bot]@users.noreply.github.com")
OPEN = Permits(lambda _: True, lambda _: True)


def plain(folder: Path, *arguments: str, check: bool = True) -> str:
    """Run git as a person does."""
    done = subprocess.run(
        ["git", *arguments], cwd=folder, env=PLAIN, capture_output=True, timeout=LONG, check=False, text=True
    )
    if check:
        assert done.returncode == 0, done.stderr
    return done.stdout


def denying(*hidden: str) -> Permits:
    def may(path: str) -> bool:
        return not any(name in hidden for name in path.split("/"))

    return Permits(may, may)


def reason(caught: pytest.ExceptionInfo[GitError]) -> GitFailureReason:
    assert caught.value.failure.text.endswith(".")
    return caught.value.failure.reason


class Workspace:
    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.folder = scene.folder

    @classmethod
    def at(cls, folder: Path) -> Workspace:
        """Return a workspace that has only files and git as a person runs it."""
        found = cls.__new__(cls)
        found.folder = folder
        return found

    def init(self, folder: str = ".") -> None:
        self.write(f"{folder}/README.md", "hello\n")
        plain(self.folder / folder, "init", "--quiet", "--initial-branch=main")
        self.save(folder)

    def save(self, folder: str = ".", message: str = "saved") -> str:
        """Commit everything, as a person does."""
        plain(self.folder / folder, "add", "--all")
        plain(self.folder / folder, "commit", "--quiet", "--allow-empty", "--message", message)
        return self.plain("rev-parse", "HEAD", folder=folder).strip()

    def plain(self, *arguments: str, folder: str = ".", check: bool = True) -> str:
        return plain(self.folder / folder, *arguments, check=check)

    def write(self, path: str, content: str | bytes) -> Path:
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)
        return file

    def sandboxed_git(self, confinement: Confinement | None = None, timeout: float = LONG) -> SandboxedGit:
        """Return git as the engine confines it: the files that git obeys are read-only."""
        if confinement is None:
            guarded = [path for path in (".git/config", ".git/hooks") if (self.folder / path).exists()]
            pinned = [".git"] if (self.folder / ".git").is_dir() else []
            confinement = Confinement(read_only=tuple(guarded), pinned=tuple(pinned))
        return SandboxedGit(self.scene.provider, str(self.folder), confinement=confinement, timeout=timeout)

    def open_repository(
        self,
        permits: Permits = OPEN,
        *,
        folder: str = ".",
        confinement: Confinement | None = None,
        timeout: float = LONG,
    ) -> LocalRepository:
        return LocalRepository.open(self.sandboxed_git(confinement, timeout), permits, folder=folder, identity=BOT)


MakeWorkspace = Callable[..., Workspace]
