"""A repository that takes something from another one, which lies outside of the workspace: nothing of that comes."""

from __future__ import annotations

import os
import shutil
from contextlib import nullcontext
from pathlib import Path

import pytest

from tests.support.git_repository import Workspace, plain, reason
from tests.support.git_team import Team
from wap_kernel.git.local import queries
from wap_kernel.git.local.repository import LocalRepository
from wap_kernel.git.remote.transfer import fetch, push
from wap_kernel.model.command import Confinement
from wap_kernel.model.git.results import GitError, GitFailureReason


def make_secret(folder: Path) -> tuple[Path, str]:
    """A repository outside of the workspace, with a commit that nobody here shall get."""
    folder.mkdir()
    other = Workspace.at(folder)
    other.init()
    other.write("secret", "the other repository's secret\n")
    return folder, other.save()


def plant(git: Path, other: Path, commit: str, kind: str) -> None:
    """Have the repository in `git` take something from the `other` one."""
    theirs = other / ".git"
    if kind == "alternates":
        (git / "objects/info/alternates").write_text(f"{theirs}/objects\n")
    elif kind == "relative alternates":
        (git / "objects/info/alternates").write_text(f"{os.path.relpath(theirs / 'objects', git / 'objects')}\n")
    elif kind == "gitdir":
        git.rename(git.parent / "old")
        git.write_text(f"gitdir: {theirs}\n")
        return
    elif kind == "commondir":
        (git / "commondir").write_text(f"{theirs}\n")
    elif kind == "worktree":
        plain(git.parent, "config", "core.worktree", str(other))
    elif kind == "loose objects":
        for folder in (theirs / "objects").glob("??"):
            shutil.rmtree(git / "objects" / folder.name, ignore_errors=True)
            (git / "objects" / folder.name).symlink_to(folder)
    elif kind == "one object":
        plain(other, "repack", "-a", "-d", "--quiet")
        for file in (theirs / "objects/pack").iterdir():
            (git / "objects/pack" / file.name).symlink_to(file)
    else:
        if kind == "pack":
            plain(other, "repack", "-a", "-d", "--quiet")
        for name in {"pack": ["objects/pack"], ".git": ["."]}.get(kind, kind.split()):
            (git / name).rename(git.parent / f"old-{name.replace('/', '-')}")
            (git / name).symlink_to(theirs / name)
    (git / "refs/heads/main").write_text(f"{commit}\n")


KINDS = (
    *(
        "alternates",
        "relative alternates",
        "gitdir",
        "commondir",
        "worktree",
        "loose objects",
        "one object",
        "pack",
        "objects",
    ),
    *("objects refs", ".git", "objects index", "HEAD objects", "logs objects"),
)


@pytest.mark.parametrize("workspace", ["local", "bubblewrap"], indirect=True)
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_comes_from_another_repository(team: Team, tmp_path: Path, kind: str) -> None:
    workspace = team.workspace
    push(team.link(), workspace.open_repository())
    other, commit = make_secret(tmp_path / "elsewhere")
    plant(workspace.folder / ".git", other, commit, kind)

    def look() -> LocalRepository:
        return workspace.open_repository(confinement=Confinement())

    with pytest.raises(GitError):
        push(team.link(), look())
    with pytest.raises(GitError):
        queries.show(look(), f"{commit}:secret")
    # In the sandbox such a link leads nowhere, and a fetch needs nothing of what should be there.
    leads_nowhere = workspace.scene.provider.confines and kind in ("loose objects", "one object", "pack")
    with nullcontext() if leads_nowhere else pytest.raises(GitError):
        fetch(team.link(), look())
    bares = [team.bare(), next(team.state.rglob("repository.git"))]
    for bare in bares:
        assert plain(bare, "cat-file", "-t", commit, check=False) == ""


@pytest.mark.parametrize("workspace", ["local"], indirect=True)
@pytest.mark.parametrize("name", ["refs", "index", "packed-refs", "logs"])
def test_nothing_of_a_repository_is_a_link_where_nothing_confines_git(
    workspace: Workspace, tmp_path: Path, name: str
) -> None:
    """Git would write into another repository, and would list the names of another's index."""
    other, _ = make_secret(tmp_path / "elsewhere")
    plain(other, "pack-refs", "--all")
    git = workspace.folder / ".git"
    if (git / name).exists():
        (git / name).rename(workspace.folder / "old")
    (git / name).symlink_to(other / ".git" / name)
    with pytest.raises(GitError) as caught:
        queries.status(workspace.open_repository())
    assert reason(caught) is GitFailureReason.OUTSIDE


@pytest.mark.parametrize("workspace", ["local", "bubblewrap"], indirect=True)
def test_a_head_of_the_old_kind(workspace: Workspace) -> None:
    head = workspace.folder / ".git/HEAD"
    head.unlink()
    head.symlink_to("refs/heads/main")
    assert queries.status(workspace.open_repository()).branch == "main"
    head.unlink()
    head.symlink_to("refs/../refs/heads/main")
    if not workspace.scene.provider.confines:
        with pytest.raises(GitError):
            workspace.open_repository()
