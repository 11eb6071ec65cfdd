"""Test that git's failures read the same on every provider, and that forbidden calls are refused before git runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.git_repository import BOT, plain
from tests.support.provider_workspace import ALL, skip_if_lacking, skip_unless_works
from tests.support.tool_interface import Interface, opened
from wap_kernel.git.settings import GitSettings
from wap_kernel.model.errors import Code

SETTINGS = GitSettings(allowed=("https://example.org/ada/*",), identity=BOT)
URL = "https://example.org/ada/engine.git"


def lock(tools: Interface) -> None:
    tools.file("a.txt", "1")
    tools.file(".git/index.lock")


def detach(tools: Interface) -> None:
    (tools.root / ".git/index.lock").unlink()
    tools.git("switch", "--quiet", "--detach")


def clash(tools: Interface) -> None:
    for branch, content in (("other", "theirs\n"), ("main", "ours\n")):
        tools.git("switch", "--quiet", "--force-create", branch, "HEAD" if branch == "other" else "HEAD~1")
        tools.file("README.md", content)
        tools.git("commit", "--quiet", "--all", "--message", branch)
    plain(tools.root, "merge", "other", check=False)


def cut_off(tools: Interface) -> None:
    plain(tools.root, "clone", "--quiet", "--depth=1", f"file://{tools.root}", "cut")


def use_lfs(tools: Interface) -> None:
    tools.git("reset", "--quiet", "--hard")
    tools.file("assets/.gitattributes", "*.bin filter=lfs diff=lfs merge=lfs -text\n")
    tools.git("add", "assets")
    tools.git("commit", "--quiet", "--message", "lfs")


STEPS: tuple[tuple[Any, dict[str, Any], str, str], ...] = (
    (None, {"action": "status"}, "no-repository", "There is no git repository here. Run `git init`"),
    (Interface.repository, {"action": "commit", "message": "m"}, "nothing", "Nothing is staged"),
    (lock, {"action": "add", "files": ["a.txt"]}, "locked", "The repository is locked"),
    (detach, {"action": "push", "url": URL}, "detached", "The head is detached, so there is no current branch."),
    (clash, {"action": "commit", "message": "m"}, "conflicts", "There are merge conflicts. Edit the files"),
    (cut_off, {"action": "fetch", "url": URL, "workdir": "cut"}, "shallow", "The repository is a shallow clone"),
    (use_lfs, {"action": "push", "url": URL, "branch": "main"}, "lfs", "The repository uses Git LFS"),
)


@pytest.mark.parametrize("provider", ALL)
def test_the_same_words_on_every_provider(tmp_path: Path, provider: str) -> None:
    skip_unless_works(provider)
    skip_if_lacking(provider, "statx")
    settings = GitSettings(allowed=SETTINGS.allowed, identity=BOT, protected=())
    with opened(tmp_path, provider=provider, git=settings) as tools:
        for prepare, fields, reason, words in STEPS:
            if prepare is not None:
                prepare(tools)
            answer = tools("git", **fields)
            assert (answer["reason"], answer["exit_code"] != 0) == (reason, True), answer
            assert answer["message"].startswith(words) and answer["message"].endswith("."), answer
            known = {"action", "exit_code", "stderr", "reason", "message", "conflicts"}
            assert answer.keys() == known - (set() if reason == "conflicts" else {"conflicts"})


ADDRESSES = (
    *("file:///etc", "/etc", "../other", "http://example.org/ada/x", "git://example.org/ada/x", "ftp://h/ada/x"),
    *("https://eve:hunter2@example.org/ada/x.git", "https://hunter2@example.org/ada/x.git"),
    *("ssh://eve@example.org/ada/x", "eve@example.org:ada/x", "ssh://-oProxyCommand=touch%20ran/x"),
    *("ext::sh -c 'touch ran'", "fd::17/x", "--upload-pack=touch ran", "-utouch", "https://example.org/ada/x --x"),
    *("https://example.org/ada/../../etc", "https://example.org/ada/x?y", "https://example.org/ada/x\nfile:///etc"),
)
NAMES = (
    "--upload-pack=touch ran",
    "-x",
    "main:other",
    ":main",
    "a..b",
    "refs/heads/x",
    "x y",
    "HEAD",
    "@{-1}",
)


def test_an_address_or_a_name_that_is_something_else(tmp_path: Path) -> None:
    with opened(tmp_path, git=SETTINGS) as tools:
        tools.repository()
        for url in ADDRESSES:
            for fields in ({"action": "clone", "path": "copy"}, {"action": "fetch"}, {"action": "push", "branch": "x"}):
                error = tools.refuse("git", url=url, **fields)
                assert error.code is Code.INVALID_ARGUMENT, (url, fields, error.text)
                assert "hunter2" not in f"{error.text}{error.details}"
        for name in NAMES:
            for fields in (
                {"action": "clone", "path": "copy", "url": URL},
                {"action": "push"},
                {"action": "branch"},
            ):
                assert tools.refuse("git", branch=name, **fields).code is Code.INVALID_ARGUMENT, (name, fields)
        error = tools.refuse("git", action="clone", url=URL, path="copy", depth=1)
        assert error.code is Code.INVALID_ARGUMENT and "Shallow clones are not supported" in error.text
        # What people write for ssh is reached by https, if it is allowed there.
        error = tools.refuse("git", action="clone", url="git@other.org:ada/x.git", path="copy")
        assert (error.code, error.details["rule"]) == (Code.PERMISSION_DENIED, "git.remotes")
        assert "hunter2" not in str(tools.audit(limit=500))
        assert sorted(path.name for path in tools.root.iterdir()) == [".git", "README.md"]
