"""A real history, this project's own, driven by the tools and compared with plain git's answers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.git_repository import plain
from tests.support.git_server import GitServer
from tests.support.provider_workspace import skip_unless_works
from tests.support.tool_interface import Interface, opened
from wap_kernel.redaction.redactor import Redactor

PROJECT = Path(__file__).parents[4]


def clone(into: Path) -> None:
    """Return the project's repository; where its history is missing, one is made of its files."""
    top = plain(PROJECT, "rev-parse", "--show-toplevel", check=False).strip()
    if top and os.path.samefile(top, PROJECT):
        plain(into.parent, "clone", "--quiet", "--no-hardlinks", str(PROJECT), str(into))
        plain(into, "switch", "--quiet", "--force-create", "main")
        return
    plain(into, "init", "--quiet", "--initial-branch=main")
    for folder in ("README.md", "docs", "wap_kernel/git", "tests/wap_kernel/git"):
        for file in (PROJECT / folder).rglob("*.*") if (PROJECT / folder).is_dir() else [PROJECT / folder]:
            copy = into / file.relative_to(PROJECT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(file.read_bytes())
        plain(into, "add", "--all")
        plain(into, "commit", "--quiet", "--message", f"adds {folder}\n\nWith all of it.")


@pytest.fixture
def tools(tmp_path: Path) -> Iterator[Interface]:
    skip_unless_works("bubblewrap")
    with opened(tmp_path, provider="bubblewrap") as tools:
        clone(tools.root)
        yield tools


FIELDS = {
    "id": "%H",
    "parents": "%P",
    "author": "%an <%ae>",
    "authored_at": "%at",
    "committer": "%cn <%ce>",
    "subject": "%s",
    "body": "%b",
}


def logged(tools: Interface, *what: str) -> list[list[str]]:
    text = tools.git("log", "-z", "--max-count=1000", f"--format={'%x01'.join(FIELDS.values())}", *what, "--")
    return [[field.strip() for field in commit.split("\x01")] for commit in text.split("\0") if commit]


def told(commit: dict[str, Any]) -> list[str]:
    from datetime import datetime

    def person(who: str) -> str:
        return f"{commit[who]['name']} <{commit[who]['email']}>"

    at = str(int(datetime.fromisoformat(commit["authored_at"].replace("Z", "+00:00")).timestamp()))
    fields = [commit["id"], " ".join(commit["parents"]), person("author"), at, person("committer")]
    return [*fields, commit["subject"].strip(), commit["body"].strip()]


def test_this_projects_own_history(tools: Interface) -> None:
    """Status, branch, edit, diff, commit, log, checkout and a merge conflict."""
    status = tools("git", action="status")
    assert (status["branch"], status["commit"]) == ("main", tools.git("rev-parse", "HEAD").strip())
    assert status["staged"] == status["changed"] == status["untracked"] == status["conflicts"] == []
    log = tools("git", action="log", limit=1000)["commits"]
    assert [told(commit) for commit in log] == logged(tools)
    for commit in log[:3]:
        files = tools("git", action="show", ref=commit["id"])["diff"]["files"]
        shown = "".join(file["patch"] for file in files)
        theirs = tools.git("show", "--format=", "-M", "--diff-merges=first-parent", commit["id"])
        assert shown == Redactor()(theirs)  # any of our own commits may hold what looks like a credential

    assert tools("git", action="checkout", branch="feature/x")["created"] is True
    assert tools.git("branch", "--show-current") == "feature/x\n"
    edited = tools("edit", file_path="README.md", old_string="\n", new_string="\n\nNew.\n", replace_all=True)
    assert edited["replacements"] > 1
    assert tools("git", action="status")["changed"] == [{"path": "/workspace/README.md", "kind": "modified"}]
    assert tools.git("status", "--porcelain") == " M README.md\n"
    (file,) = tools("git", action="diff")["unstaged"]["files"]
    assert file["patch"] == tools.git("diff")
    assert f"{file['added']}\t{file['deleted']}\tREADME.md\n" == tools.git("diff", "--numstat")
    made = tools("git", action="commit", message="feature", files=["README.md"])
    assert made["id"] == tools.git("rev-parse", "feature/x").strip()
    tools("git", action="checkout", branch="main")
    assert tools.git("status", "--porcelain") == ""
    tools("write", file_path="README.md", content="other\n")
    tools("git", action="commit", message="other", files=["/workspace/README.md"])
    both = tools("git", action="log", ref="feature/x...main")["commits"]
    assert [told(commit) for commit in both] == logged(tools, "feature/x...main")
    branches = {branch["name"]: branch["commit"] for branch in tools("git", action="branch")["branches"]}
    listed = tools.git("for-each-ref", "--format=%(refname:short) %(objectname)", "refs/heads").splitlines()
    assert {line.split()[0]: line.split()[1] for line in listed}.items() <= branches.items()

    tools("bash", command="git -c user.name=a -c user.email=a@b merge feature/x; true")
    status = tools("git", action="status")
    assert status["conflicts"] == [{"path": "/workspace/README.md", "kind": "both-modified"}]
    assert tools.git("diff", "--name-only", "--diff-filter=U") == "README.md\n"
    assert tools("git", action="commit", message="too early")["reason"] == "conflicts"
    tools("write", file_path="README.md", content="both\n")
    merged = tools("git", action="commit", message="merged", files=["README.md"])
    parents = tools("git", action="log", limit=1)["commits"][0]["parents"]
    assert parents == tools.git("rev-parse", f"{merged['id']}^1", f"{merged['id']}^2").split()


def test_it_is_cloned_and_merged_by_the_tools_too(connected: Interface, server: GitServer, tmp_path: Path) -> None:
    """Pull from a remote on which a colleague changed the same lines meanwhile."""
    original, bare = tmp_path / "original", server.repositories / "ada/project.git"
    original.mkdir()
    clone(original)
    plain(tmp_path, "clone", "--quiet", "--bare", str(original), str(bare))

    def git(action: str, **fields: Any) -> dict[str, Any]:
        return connected("git", action=action, workdir="/workspace/project", **fields)

    url = server.url("ada/project")
    made = connected("git", action="clone", url=url, path="project")
    copy = connected.root / "project"
    assert made["exit_code"] == 0 and plain(copy, "rev-parse", "HEAD") == plain(original, "rev-parse", "main")
    assert plain(copy, "rev-list", "--all", "--count") == plain(original, "rev-list", "main", "--count")
    assert plain(copy, "ls-tree", "-r", "HEAD") == plain(original, "ls-tree", "-r", "main")
    assert plain(copy, "status", "--porcelain") == ""
    (original / "README.md").write_text("theirs\n")
    plain(original, "commit", "--quiet", "--all", "--message", "theirs")
    plain(original, "push", "--quiet", str(bare), "main")
    connected("write", file_path="project/README.md", content="ours\n")
    git("commit", message="ours", files=["README.md"])
    assert git("pull", url=url)["reason"] == "conflicts"
    assert git("status")["conflicts"] == [{"path": "/workspace/project/README.md", "kind": "both-modified"}]
    assert plain(copy, "diff", "--name-only", "--diff-filter=U") == "README.md\n"
    connected("write", file_path="project/README.md", content="both\n")
    merged = git("commit", message="merged", files=["README.md"])
    parents = git("log", limit=1)["commits"][0]["parents"]
    assert parents == plain(copy, "rev-parse", f"{merged['id']}^1", f"{merged['id']}^2").split()
    assert parents[1] == plain(original, "rev-parse", "main").strip()
    git("checkout", branch="merged")
    assert git("push", url=url, branch="merged")["exit_code"] == 0
    assert plain(bare, "rev-parse", "merged").strip() == merged["id"]
