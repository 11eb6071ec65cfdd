"""Filters are switched off: what that would spoil is refused, and what it changes is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.git_repository import Workspace, plain, reason
from tests.support.git_team import Team
from wap_kernel.git.local import changes
from wap_kernel.git.remote.transfer import pull, push
from wap_kernel.model.git.results import GitError, GitFailureReason

POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:1\n"
ATTRIBUTES = "*.bin filter=lfs diff=lfs merge=lfs -text\n"


@pytest.fixture
def large(workspace: Workspace) -> Workspace:
    """A repository with a large file, whose pointer is committed and whose contents lie in the work tree."""
    workspace.write(".gitattributes", ATTRIBUTES)
    workspace.write("a.bin", POINTER)
    workspace.write("sub/b.bin", POINTER)
    workspace.save()
    workspace.write("a.bin", "the contents")
    return workspace


@pytest.mark.parametrize("files", [["a.bin"], ["."], ["a.bin", "t"]])
def test_a_large_file_is_not_committed_in_the_place_of_its_pointer(large: Workspace, files: list[str]) -> None:
    large.write("t", "text")
    head = large.plain("rev-parse", "HEAD")
    for act in (
        lambda: changes.add(large.open_repository(), files),
        lambda: changes.commit(large.open_repository(), "all", files),
    ):
        with pytest.raises(GitError) as caught:
            act()
        assert reason(caught) is GitFailureReason.LFS and "a.bin" in caught.value.failure.text
    assert large.plain("rev-parse", "HEAD") == head
    assert large.plain("diff", "--cached", "--name-only") == ""
    changes.commit(large.open_repository(), "the text", ["t"])
    assert large.plain("show", "HEAD:a.bin") == POINTER


def test_a_large_file_can_be_removed(large: Workspace) -> None:
    (large.folder / "a.bin").unlink()
    changes.commit(large.open_repository(), "without it", ["a.bin"])
    assert large.plain("ls-files").split() == [".gitattributes", "README.md", "sub/b.bin"]


def test_a_pointer_is_not_written_over_the_contents(large: Workspace) -> None:
    for paths, source in ((["a.bin"], None), (["."], None), (["a.bin"], "HEAD")):
        with pytest.raises(GitError) as caught:
            changes.restore(large.open_repository(), paths, source=source)
        assert reason(caught) is GitFailureReason.LFS
    assert (large.folder / "a.bin").read_text() == "the contents"
    changes.restore(large.open_repository(), ["a.bin"], staged=True)


def test_a_branch_with_other_large_files_is_not_checked_out(large: Workspace) -> None:
    large.plain("stash", "--quiet")
    large.plain("branch", "before", "HEAD~1")
    large.plain("switch", "--quiet", "-c", "other")
    large.write("sub/b.bin", f"{POINTER}size 2\n")
    large.save()
    large.plain("switch", "--quiet", "-c", "text")
    large.write("t", "text")
    large.save()
    with pytest.raises(GitError) as caught:
        changes.checkout(large.open_repository(), "main")
    assert reason(caught) is GitFailureReason.LFS
    changes.checkout(large.open_repository(), "other")  # where they are the same
    large.plain("switch", "--quiet", "before")  # nothing here says that there are large files
    with pytest.raises(GitError) as caught:
        changes.checkout(large.open_repository(), "main")
    assert reason(caught) is GitFailureReason.LFS


def test_large_files_that_a_person_fetched_are_not_pulled(team: Team, tmp_path: Path) -> None:
    workspace = team.workspace
    push(team.link(), workspace.open_repository())
    team.colleague(tmp_path / "colleague", ".gitattributes", ATTRIBUTES)
    team.colleague(tmp_path / "colleague", "a.bin", POINTER)
    plain(workspace.folder, "fetch", "--quiet", str(team.bare()), "main:refs/remotes/origin/main")
    head = workspace.plain("rev-parse", "HEAD")
    with pytest.raises(GitError) as caught:
        pull(team.link(), workspace.open_repository())
    assert reason(caught) is GitFailureReason.LFS and workspace.plain("rev-parse", "HEAD") == head


def test_what_another_filter_would_have_done_is_said(workspace: Workspace) -> None:
    workspace.write(".gitattributes", "*.ipynb filter=nbstripout\n")
    workspace.plain("config", "filter.nbstripout.clean", "false")
    workspace.write("a.ipynb", "{}")
    assert changes.add(workspace.open_repository(), [".gitattributes"]).note is None
    note = changes.add(workspace.open_repository(), ["."]).note
    assert note == "Filters are not run here (nbstripout), so these were added as they are: a.ipynb."
    workspace.write("a.ipynb", "{1}")
    assert changes.commit(workspace.open_repository(), "all", ["."]).note == note
    workspace.write("a.ipynb", "{2}")
    workspace.plain("switch", "--quiet", "--detach")
    found = changes.commit(workspace.open_repository(), "all", ["."]).note
    assert found is not None and note is not None and found.startswith(note) and "detached" in found
