"""Git as the tool has it: through the whole pipeline, with policy, audit and a remote."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.git_repository import BOT, plain
from tests.support.git_server import GitServer
from tests.support.provider_workspace import ALL, skip_unless_works
from tests.support.tool_interface import Interface, opened
from wap_kernel.git.remote.credentials import TokenFile
from wap_kernel.git.settings import GitSettings
from wap_kernel.model.errors import Code, InvalidArgument, PermissionDenied, ProviderUnavailable
from wap_kernel.model.policy import CommandRule, FilesystemPolicy, Policy, ShellPolicy
from wap_kernel.policy import presets

PROVIDER = "bubblewrap"


@pytest.fixture(autouse=True)
def sandbox() -> None:
    skip_unless_works(PROVIDER)


@pytest.fixture
def tools(tmp_path: Path) -> Iterator[Interface]:
    """Create a workspace with a repository."""
    with opened(tmp_path, provider=PROVIDER) as tools:
        tools.repository()
        yield tools


def push(tools: Interface, **fields: Any) -> dict[str, Any]:
    """A person agrees where one is asked."""
    return tools.decided(True, "git", action="push", **fields)


# -- remotes


@pytest.mark.parametrize("connected", ALL, indirect=True)
def test_git_push(connected: Interface, server: GitServer) -> None:
    connected.file("a.txt", "1")
    made = connected("git", action="commit", message="fix: update port", files=["a.txt"])
    assert made["author"] == {"name": BOT.name, "email": BOT.email}
    connected("git", action="checkout", branch="feature/x")
    answer = connected("git", action="push", branch="feature/x")
    assert (answer["exit_code"], answer["remote"]) == (0, "origin")
    assert answer["refs"] == [{"name": "feature/x", "after": made["id"]}]
    assert plain(server.repositories / "ada/engine.git", "rev-parse", "feature/x").strip() == made["id"]
    status = connected("git", action="status")
    assert (status["upstream"], status["ahead"], status["behind"]) == ("origin/feature/x", 0, 0)
    (token,) = server.tokens
    told = json.dumps([answer, connected.audit()])
    assert token not in told
    for folder, _, names in os.walk(connected.root.parent):
        for name in names:
            if not folder.startswith(str(server.folder)):
                assert token.encode() not in Path(folder, name).read_bytes()


@pytest.mark.parametrize("connected", ALL, indirect=True)
def test_fetch_pull_and_clone(connected: Interface, server: GitServer, tmp_path: Path) -> None:
    push(connected)
    bare, other = server.repositories / "ada/engine.git", tmp_path / "other"
    plain(bare, "clone", "--quiet", str(bare), str(other))
    (other / "b.txt").write_text("theirs")
    plain(other, "add", "--all")
    plain(other, "commit", "--quiet", "--message", "theirs")
    plain(other, "push", "--quiet", "origin", "main")
    assert [ref["name"] for ref in connected("git", action="fetch")["refs"]] == ["origin/main"]
    assert connected("git", action="status")["behind"] == 1
    assert connected("git", action="pull")["kind"] == "fast-forward"
    assert (connected.root / "b.txt").read_text() == "theirs"
    cloned = connected("git", action="clone", url=server.url(), path="/workspace/copies/engine")
    assert (cloned["path"], cloned["branch"]) == ("/workspace/copies/engine", "main")
    assert (connected.root / "copies/engine/b.txt").read_text() == "theirs"
    git = connected("git", action="log", workdir="/workspace/copies/engine", files=["b.txt"])
    assert [commit["subject"] for commit in git["commits"]] == ["theirs"]


@pytest.mark.parametrize(
    ("fields", "rule"),
    [
        ({}, "git.push.protected"),
        ({"branch": "main"}, "git.push.protected"),
        ({"branch": "release/1"}, "git.push.protected"),
        ({"branch": "x", "force": True}, "git.push.force"),
        ({"branch": "x", "delete": True}, "git.push.delete"),
    ],
)
def test_what_always_asks(connected: Interface, server: GitServer, fields: dict[str, Any], rule: str) -> None:
    error = connected.refuse("git", action="push", **fields)
    assert error.code is Code.APPROVAL_REQUIRED and error.details["rule"] == rule
    assert error.text.startswith("It would ") and "a person must agree first" in error.text
    assert server.seen == []


def test_a_remote_that_nobody_allowed(connected: Interface, server: GitServer) -> None:
    for url in (server.url("eve/engine"), "https://example.org/ada/engine.git", "git@example.org:ada/engine.git"):
        error = connected.refuse("git", action="fetch", url=url)
        assert error.code is Code.PERMISSION_DENIED and error.details["rule"] == "git.remotes"
    connected.git("remote", "set-url", "origin", "https://example.org/ada/engine.git")
    assert connected.refuse("git", action="fetch").code is Code.PERMISSION_DENIED
    connected.git("remote", "set-url", "origin", "https://eve:hunter2@example.org/ada/engine.git")
    error = connected.refuse("git", action="fetch")
    assert error.code is Code.INVALID_ARGUMENT and "hunter2" not in error.text
    connected.git("remote", "remove", "origin")
    answer = connected("git", action="fetch")
    assert (answer["reason"], answer["exit_code"]) == ("no-remote", 1)
    assert server.seen == []


def test_without_settings_remote_operations_say_what_to_configure(tools: Interface) -> None:
    for fields in ({"action": "fetch"}, {"action": "clone", "url": "https://h/o/n.git", "path": "n"}):
        error = tools.refuse("git", **fields)
        assert error.code is Code.PROVIDER_UNAVAILABLE and "No git remote is configured" in error.text
    assert not (tools.root / "n").exists()


def test_the_credential_cannot_be_read_in_the_workspace(tmp_path: Path) -> None:
    secret = tmp_path / "ws" / "token"
    secret.parent.mkdir()
    secret.write_text("ghs_secret")
    secret.chmod(0o600)
    settings = GitSettings(source=TokenFile(str(secret), origin="https://h"))
    with opened(tmp_path, provider=PROVIDER, git=settings) as tools:
        assert tools.refuse("read", file_path="token").code is Code.PERMISSION_DENIED
        assert "ghs_secret" not in tools("bash", command="cat token; true")["stdout"]


def test_allowed_remotes() -> None:
    settings = GitSettings(allowed=("https://github.com/ada/*", "https://git.example.org"))
    for url in ("https://github.com/ada/engine.git", "git@github.com:ada/engine.git", "ssh://git@GitHub.com/ada/x"):
        assert settings.resolve_remote(url).url.startswith(("https://github.com/ada/", "https://GitHub.com/ada/"))
    assert settings.resolve_remote("https://git.example.org/a/b")
    for url in ("https://github.com/eve/x", "https://github.com.evil.org/ada/x", "https://github.com:444/ada/x"):
        with pytest.raises(PermissionDenied):
            settings.resolve_remote(url)
    for url in (
        "http://github.com/ada/x",
        "https://a:b@github.com/ada/x",
        "file:///ada/x",
        "https://github.com/ada/../x",
    ):
        with pytest.raises(InvalidArgument):
            settings.resolve_remote(url)
    with pytest.raises(ProviderUnavailable):
        GitSettings().require_remote()


# -- policy


def test_what_the_standard_preset_says(tmp_path: Path) -> None:
    settings = GitSettings(allowed=("https://example.org/*",), identity=BOT)
    with opened(tmp_path, provider=PROVIDER, policy=presets.load_preset("standard"), git=settings) as tools:
        tools.repository()
        tools.file("a.txt", "1")
        for fields in (
            *({"action": action} for action in ("status", "diff", "log", "show", "branch")),
            {"action": "add", "files": ["a.txt"]},
            {"action": "commit", "message": "m"},
            {"action": "checkout", "branch": "x"},
            {"action": "branch", "branch": "y"},
            {"action": "restore", "files": ["a.txt"]},
        ):
            assert tools("git", **fields)["exit_code"] == 0, fields
        tools.git("remote", "add", "origin", "https://example.org/ada/engine.git")
        for fields in ({"action": "fetch"}, {"action": "pull"}, {"action": "push", "branch": "x"}):
            error = tools.refuse("git", **fields)
            assert error.code is Code.APPROVAL_REQUIRED and error.details["rule"] == f"git {fields['action']}"


def test_a_rule_for_the_shell_is_one_for_the_tool(tmp_path: Path) -> None:
    rules = (
        CommandRule(command="git commit", verdict="deny"),
        CommandRule(command="git restore", verdict="ask", having=("--staged",)),
    )
    with opened(tmp_path, provider=PROVIDER, policy=Policy(name="house", shell=ShellPolicy(rules=rules))) as tools:
        tools.repository()
        assert tools.refuse("git", action="commit", message="m").code is Code.PERMISSION_DENIED
        error = tools.refuse("git", action="restore", files=["."], staged=True)
        assert error.code is Code.APPROVAL_REQUIRED
        assert tools("git", action="restore", files=["."])["exit_code"] == 0


def test_without_the_network_nothing_is_transferred(connected: Interface, server: GitServer) -> None:
    (connected.root / ".cws-policy.json").write_text('{"network": {"access": "none"}}')
    for fields in ({"action": "fetch"}, {"action": "push", "branch": "x"}):
        error = connected.refuse("git", **fields)
        assert error.code is Code.PERMISSION_DENIED and error.details["rule"] == "network.access"
    assert connected("git", action="status")["exit_code"] == 0
    assert server.seen == []


@pytest.mark.parametrize("provider", ["local", PROVIDER])
def test_a_link_into_a_denied_folder(tmp_path: Path, provider: str) -> None:
    policy = Policy(name="house", filesystem=FilesystemPolicy(denied_paths=("secret",)))
    with opened(tmp_path, provider=provider, policy=policy) as tools:
        tools.file("secret/a.txt", "1")
        plain(tools.root / "secret", "init", "--quiet")
        (tools.root / "link").symlink_to("secret")
        for workdir in ("secret", "link", "link/.git"):
            error = tools.refuse("git", action="log", workdir=workdir)
            assert error.code is Code.PERMISSION_DENIED and "/log" not in error.text


@pytest.mark.parametrize(
    "shell",
    [ShellPolicy(enabled=False), ShellPolicy(blocked_commands=("git",)), ShellPolicy(allowed_commands=("ls",))],
)
def test_who_may_not_run_git_may_not_use_the_tool(tmp_path: Path, shell: ShellPolicy) -> None:
    with opened(tmp_path, provider=PROVIDER, policy=Policy(name="house", shell=shell)) as tools:
        tools.repository()
        assert tools.refuse("git", action="status").code is Code.PERMISSION_DENIED


def test_denied_paths_are_denied_in_every_commit(tmp_path: Path) -> None:
    with opened(tmp_path, provider=PROVIDER, policy=presets.load_preset("standard")) as tools:
        tools.file(".env", "TOKEN=1\n")
        tools.repository()
        tools.file("sub/.env", "TOKEN=2\n")
        for fields in (
            {"action": "show", "ref": "HEAD:.env"},
            {"action": "diff", "files": [".env"]},
            {"action": "log", "files": ["/workspace/.env"]},
            {"action": "restore", "files": [".env"]},
            {"action": "add", "files": ["sub/.env"]},
            {"action": "status", "workdir": ".git"},
        ):
            assert tools.refuse("git", **fields).code is Code.PERMISSION_DENIED, fields
        shown = tools("git", action="show")
        assert [file["path"] for file in shown["diff"]["files"]] == ["/workspace/README.md"]
        assert shown["diff"]["left_out"] == 1
        assert "TOKEN" not in json.dumps(shown)
        assert tools("git", action="add", files=["."])["paths"] == []


def test_a_folder_of_files_that_may_be_read(tmp_path: Path) -> None:
    policy = Policy(name="house", filesystem=FilesystemPolicy(allowed_paths=("src/**",)))
    with opened(tmp_path, provider=PROVIDER, policy=policy) as tools:
        tools.file("src/a.txt", "1\n")
        tools.repository()
        tools.file("src/a.txt", "2\n")
        tools.file("README.md", "changed\n")
        status = tools("git", action="status")
        assert (status["changed"], status["left_out"]) == ([{"path": "/workspace/src/a.txt", "kind": "modified"}], 1)
        assert tools.refuse("git", action="diff", files=["README.md"]).code is Code.PERMISSION_DENIED


# -- git's own refusals are answers


def test_a_failure_is_an_answer_with_what_to_do_next(tools: Interface) -> None:
    tools.file("sub/x", "1")
    cases: tuple[tuple[dict[str, Any], str], ...] = (
        ({"action": "commit", "message": "m"}, "nothing"),
        ({"action": "show", "ref": "nothing"}, "unknown-revision"),
        ({"action": "add", "files": ["nothing"]}, "unknown-path"),
        ({"action": "branch", "branch": "main"}, "exists"),
    )
    for fields, reason in cases:
        answer = tools("git", **fields)
        assert answer["exit_code"] != 0 and answer["reason"] == reason and answer["message"].endswith("."), fields


def test_no_repository(tmp_path: Path) -> None:
    with opened(tmp_path, provider=PROVIDER) as tools:
        answer = tools("git", action="status")
        assert (answer["exit_code"], answer["reason"]) == (128, "no-repository")
        assert "not a git repository" in answer["stderr"] and "git init" in answer["message"]
        assert tools.refuse("git", action="status", workdir="nothing").code is Code.FILE_NOT_FOUND


def test_a_locked_index(tools: Interface) -> None:
    tools.file("a.txt", "1")
    tools.file(".git/index.lock")
    answer = tools("git", action="add", files=["a.txt"])
    assert answer["reason"] == "locked" and ".lock" in answer["message"]


def test_a_detached_head(tools: Interface) -> None:
    head = tools.git("rev-parse", "HEAD").strip()
    answer = tools("git", action="checkout", branch=head)
    assert "branch" not in answer and "detached" in answer["note"]
    status = tools("git", action="status")
    assert "branch" not in status and "detached" in status["note"]


def test_a_merge_conflict(tools: Interface) -> None:
    tools("git", action="checkout", branch="other")
    tools.file("README.md", "theirs\n")
    tools("git", action="commit", message="theirs", files=["README.md"])
    tools("git", action="checkout", branch="main")
    tools.file("README.md", "ours\n")
    tools("git", action="commit", message="ours", files=["README.md"])
    tools("bash", command="git -c user.name=a -c user.email=a@b merge other; true")
    status = tools("git", action="status")
    assert status["conflicts"] == [{"path": "/workspace/README.md", "kind": "both-modified"}]
    assert status["underway"] == "merge"
    answer = tools("git", action="commit", message="m")
    assert (answer["reason"], answer["conflicts"]) == ("conflicts", ["/workspace/README.md"])
    tools.file("README.md", "both\n")
    assert tools("git", action="commit", message="merged", files=["README.md"])["exit_code"] == 0
    assert len(tools("git", action="log", limit=1)["commits"][0]["parents"]) == 2


def test_files_are_relative_to_workdir_and_answers_can_be_used_again(tmp_path: Path) -> None:
    with opened(tmp_path, provider=PROVIDER) as tools:
        tools.file("proj/src/a.txt", "1\n")
        plain(tools.root / "proj", "init", "--quiet", "--initial-branch=main")
        (untracked,) = tools("git", action="status", workdir="/workspace/proj")["untracked"]
        assert untracked == "/workspace/proj/src/"
        assert tools("git", action="add", workdir="proj", files=[untracked])["paths"] == ["/workspace/proj/src/a.txt"]
        made = tools("git", action="commit", message="m", workdir="/workspace/proj/src", files=["a.txt"])
        assert (made["exit_code"], made["files"]) == (0, 1)
        assert tools("git", action="show", ref="HEAD:", workdir="proj")["path"] == "/workspace/proj"
        shown = tools("git", action="show", ref="HEAD:src/a.txt", workdir="proj")
        assert (shown["path"], shown["content"]) == ("/workspace/proj/src/a.txt", "1\n")
