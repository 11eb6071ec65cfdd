"""A person agrees to a push: of these commits, to this address. When that is another by then, it is asked anew."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.git_repository import plain
from tests.support.git_server import GitServer
from tests.support.git_team import Team
from tests.support.tool_interface import SECONDS, Interface, opened
from wap_kernel.git.remote import transfer
from wap_kernel.git.remote.credentials import TokenFile
from wap_kernel.git.remote.transfer import push
from wap_kernel.git.settings import GitSettings
from wap_kernel.model.caller import Caller
from wap_kernel.model.errors import Code, Conflict, InvalidArgument
from wap_kernel.model.git.results import GitError, GitFailureReason
from wap_kernel.model.limits import MAX_PREVIEWED_COMMITS
from wap_kernel.model.policy import CommandRule, Policy, ShellPolicy
from wap_kernel.policy import presets
from wap_kernel.runs.decisions import Decision
from wap_kernel.state.changes import image_store
from wap_kernel.state.changes.image_store import ImageStore

ADA = Caller(user="ada")


class Asked:
    """A call that waits for a person."""

    def __init__(self, tools: Interface, **fields: Any) -> None:
        self._tools = tools
        error = tools.refuse("git", **fields)
        assert error.code is Code.APPROVAL_REQUIRED
        self.run = str(error.details["runId"])

    def message(self) -> dict[str, Any]:
        async def told() -> dict[str, Any]:
            runner = self._tools.runner
            return await runner.message(await runner.get(self.run, ADA), ADA)

        return self._wait(told())

    @property
    def pending(self) -> dict[str, Any]:
        found: dict[str, Any] = self.message()["pendingApproval"]
        return found

    def approve(self, *, remember: bool = False) -> dict[str, Any]:
        """The call's own answer."""
        decision = Decision(True, operation_id="git", remember=remember)

        async def whole() -> dict[str, Any] | None:
            await self._tools.runner.decide(self.run, decision, ADA)
            return await self._tools.runner.wait_for_response(self.run, SECONDS)

        return self._wait(whole())

    def revert(self) -> dict[str, Any]:
        async def whole() -> dict[str, Any]:
            runner = self._tools.runner
            begun = await runner.revert(self.run, ADA)
            await runner.wait(begun.id, SECONDS)
            return await runner.message(await runner.get(begun.id, ADA), ADA)

        return self._wait(whole())

    def _wait(self, something: Any) -> Any:
        return self._tools._wait(something)


def commit(tools: Interface, path: str) -> str:
    tools.file(path, "1\n")
    return str(tools("git", action="commit", message=f"adds {path}", files=[path])["id"])


def test_a_push_is_agreed_to_by_address_and_commit(connected: Interface, server: GitServer) -> None:
    first = commit(connected, "a.txt")
    asked = Asked(connected, action="push")
    shown = asked.pending
    assert shown["command"] == f"git push {server.url()} {first}:main"
    assert (shown["remote"], shown["branch"], shown["commit"]) == (server.url(), "main", first)
    assert [line.split(" ", 1)[1] for line in shown["commits"]] == ["adds a.txt", "first"]
    assert shown["policy"] == "git.approvalRequired"

    second = commit(connected, "b.txt")
    with pytest.raises(Conflict, match="Changed since it was shown: the branch main") as caught:
        asked.approve()
    assert asked.pending["approvalId"] == caught.value.details["approvalId"]
    assert asked.pending["commit"] == second

    server.create("ada/other")
    connected.git("remote", "set-url", "origin", server.url("ada/other"))
    with pytest.raises(Conflict, match="the remote"):
        asked.approve()
    connected.git("remote", "set-url", "origin", server.url())
    with pytest.raises(Conflict, match="the remote"):
        asked.approve()

    connected("git", action="checkout", branch="side")
    with pytest.raises(Conflict, match="the branch main, the branch side"):
        asked.approve()
    connected("git", action="checkout", branch="main")
    with pytest.raises(Conflict):
        asked.approve()
    assert server.seen == []

    assert asked.approve()["refs"] == [{"name": "main", "after": second}]
    assert plain(server.repositories / "ada/engine.git", "rev-parse", "main").strip() == second
    (record,) = [one for one in connected.audit() if one["tool"] == "git" and "push" in str(one["summary"])][:1]
    assert record["summary"]["command"] == f"git push {server.url()} {second}:main"


def test_nobody_is_asked_about_what_is_certain_to_be_denied(tmp_path: Path) -> None:
    settings = GitSettings(allowed=("https://example.org/ada/*",))
    with opened(tmp_path, policy=presets.load_preset("standard"), git=settings) as tools:
        tools.repository()
        calls: list[dict[str, Any]] = [
            {"action": "push", "branch": "main"},
            {"action": "fetch"},
            {"action": "clone", "path": "n"},
        ]
        for fields in calls:
            error = tools.refuse("git", url="https://evil.example/ada/engine.git", **fields)
            assert (error.code, error.details["rule"]) == (Code.PERMISSION_DENIED, "git.remotes"), fields
        addresses = {
            "https://evil.example/ada/engine.git": Code.PERMISSION_DENIED,
            "https://eve:hunter2@example.org/ada/engine.git": Code.INVALID_ARGUMENT,
            "ext::sh -c id": Code.INVALID_ARGUMENT,
        }
        tools.git("remote", "add", "origin", "x")
        for url, code in addresses.items():
            tools.git("remote", "set-url", "origin", url)
            for fields in calls[:2]:
                error = tools.refuse("git", **fields)
                assert error.code is code and "hunter2" not in error.text, (url, fields, error.text)
                assert tools.audit()[0]["code"] == code.value
        assert tools._wait(tools.runner.page(ADA, None, 10, None)) == ([], None)
        tools.git("remote", "set-url", "origin", "https://example.org/ada/engine.git")
        assert Asked(tools, action="fetch").pending["remote"] == "https://example.org/ada/engine.git"


def test_a_push_by_force_shows_what_is_lost_there(connected: Interface, server: GitServer, tmp_path: Path) -> None:
    def subjects(lines: list[str]) -> list[str]:
        return [line.split(" ", 1)[1] for line in lines]

    first = commit(connected, "a.txt")
    never = Asked(connected, action="push", force=True)
    assert not {"seen", "overwritten"} & never.pending.keys(), "the branch has never been seen there"
    assert Asked(connected, action="push").approve()["exit_code"] == 0
    with pytest.raises(Conflict, match="what was last seen there"):
        never.approve()

    bare, other = server.repositories / "ada/engine.git", tmp_path / "other"
    plain(bare, "clone", "--quiet", str(bare), str(other))
    (other / "theirs.txt").write_text("theirs\n")
    plain(other, "add", "--all")
    plain(other, "commit", "--quiet", "--message", "theirs")
    plain(other, "push", "--quiet", "origin", "main")
    theirs = plain(other, "rev-parse", "HEAD").strip()

    commit(connected, "b.txt")
    stale = Asked(connected, action="push", force=True)
    assert stale.pending["seen"] == first and "overwritten" not in stale.pending
    assert connected("git", action="fetch")["exit_code"] == 0
    with pytest.raises(Conflict, match="what was last seen there"):
        stale.approve()
    shown = stale.pending
    assert shown["seen"] == theirs and subjects(shown["overwritten"]) == ["theirs"]
    assert subjects(shown["commits"]) == ["adds b.txt"]

    connected.git("update-ref", "refs/remotes/origin/main", "main")  # as if all of it were there
    forged = Asked(connected, action="push", force=True).pending
    assert {name: forged[name] for name in ("seen", "commits", "overwritten")} == {
        name: shown[name] for name in ("seen", "commits", "overwritten")
    }
    deleted = Asked(connected, action="push", branch="main", delete=True).pending
    assert subjects(deleted["overwritten"]) == ["theirs", "adds a.txt", "first"]
    assert stale.approve()["exit_code"] == 0
    assert subjects([plain(bare, "log", "-1", "--format=%h %s", "main").strip()]) == ["adds b.txt"]


@pytest.mark.parametrize("force", [False, True])
def test_a_history_that_is_cut_off_hides_nothing(connected: Interface, force: bool) -> None:
    """The agent writes `.git/shallow`, requests the push, and removes the file before the decision."""
    first = commit(connected, "a.txt")
    last = [commit(connected, path) for path in ("b.txt", "c.txt")][-1]
    if force:  # then these are what is lost
        assert Asked(connected, action="push").approve()["exit_code"] == 0
        connected.git("reset", "--quiet", "--hard", first)
    shallow = connected.root / ".git/shallow"
    shallow.write_text(f"{last}\n")
    asked = Asked(connected, action="push", branch="main", force=force)
    assert not {"commits", "overwritten", "remote"} & asked.pending.keys()
    shallow.unlink()
    with pytest.raises(Conflict, match="the remote"):
        asked.approve()
    shown = asked.pending["overwritten" if force else "commits"]
    assert [line.split(" ", 1)[1] for line in shown][:2] == ["adds c.txt", "adds b.txt"]


FORGE = """\
import os, subprocess, sys, zlib
forged, parent = sys.argv[1:]
tree = subprocess.check_output(["git", "rev-parse", f"{forged}^{{tree}}"], text=True).strip()
who = "A <a@example.org> 1700000000 +0000"
body = f"tree {tree}\\nparent {parent}\\nauthor {who}\\ncommitter {who}\\n\\nharmless\\n".encode()
path = f".git/objects/{forged[:2]}/{forged[2:]}"
os.unlink(path)
with open(path, "wb") as file:
    file.write(zlib.compress(b"commit %d\\0" % len(body) + body))
"""
"""Another commit under the name of the first, whose parent is the second; git looks at the hash of neither."""


@pytest.mark.parametrize("force", [False, True])
def test_an_object_that_is_not_what_its_name_says_hides_nothing(connected: Interface, force: bool) -> None:
    first = commit(connected, "a.txt")
    assert Asked(connected, action="push").approve()["exit_code"] == 0
    commits = [commit(connected, path) for path in ("b.txt", "c.txt", "d.txt")]
    if force:  # then these are what is lost
        assert Asked(connected, action="push").approve()["exit_code"] == 0
        connected.git("reset", "--quiet", "--hard", first)
    connected.file("forge.py", FORGE)
    ran = connected("bash", command=f"python3 forge.py {commits[1]} {first}")
    assert ran["exit_code"] == 0, ran
    asked = Asked(connected, action="push", branch="main", force=force)
    if force:
        shown = asked.pending["overwritten"]
        assert [line.split(" ", 1)[1] for line in shown] == ["adds d.txt", "adds c.txt", "adds b.txt"]
    else:  # the server has no such commit, so nothing is shown and nothing can be pushed
        assert "commits" not in asked.pending
        assert asked.approve()["exit_code"] != 0


def test_who_was_shown_no_commit_has_agreed_to_none(
    connected: Interface, server: GitServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An object is missing while it is asked about, and comes back when nobody looks any more."""
    first = commit(connected, "a.txt")
    assert Asked(connected, action="push").approve()["exit_code"] == 0
    second = commit(connected, "b.txt")
    path, hidden = connected.root / ".git/objects" / second[:2] / second[2:], tmp_path / "hidden"
    path.rename(hidden)
    asked = Asked(connected, action="push")
    assert "commit" not in asked.pending
    push = transfer.push

    def late(*arguments: Any, **more: Any) -> Any:
        hidden.rename(path)
        return push(*arguments, **more)

    monkeypatch.setattr(transfer, "push", late)
    assert asked.approve()["exit_code"] != 0
    assert path.exists() and not hidden.exists()
    assert plain(server.repositories / "ada/engine.git", "rev-parse", "main").strip() == first


def test_a_long_list_says_that_it_goes_on(connected: Interface) -> None:
    for number in range(MAX_PREVIEWED_COMMITS + 1):
        connected.git("commit", "--quiet", "--allow-empty", "--message", f"number {number}")
    shown = Asked(connected, action="push").pending["commits"]
    assert (len(shown), shown[-1]) == (MAX_PREVIEWED_COMMITS + 1, "... and more")


def test_an_agent_that_asks_again_asks_about_the_new_commit(connected: Interface) -> None:
    commit(connected, "a.txt")
    asked = Asked(connected, action="push")
    assert Asked(connected, action="push").run == asked.run
    second = commit(connected, "b.txt")
    again = Asked(connected, action="push")
    assert again.run != asked.run and again.pending["commit"] == second


def test_what_moves_after_the_answer_is_not_pushed(team: Team) -> None:
    workspace = team.workspace
    approved_commit = workspace.save()
    workspace.save()
    with pytest.raises(GitError) as caught:
        push(team.link(), workspace.open_repository(), "main", approved_commit=approved_commit)
    assert caught.value.failure.reason is GitFailureReason.MOVED and "new approval" in caught.value.failure.text
    assert team.server.seen == []


def test_deletion_and_what_cannot_be_looked_up(connected: Interface, server: GitServer) -> None:
    shown = Asked(connected, action="push", branch="gone", delete=True).pending
    assert shown["command"] == f"git push --delete {server.url()} gone" and "commit" not in shown
    connected.git("remote", "remove", "origin")
    error = connected.refuse("git", action="push")  # no person is asked
    assert error.code is Code.INVALID_ARGUMENT and "no remote" in error.text


@pytest.fixture
def asking(request: pytest.FixtureRequest, tmp_path: Path, server: GitServer) -> Any:
    """Open a workspace in which fetch, pull and push need approval, with a token in a file."""
    server.create()
    token = tmp_path / "token"
    token.touch(mode=0o600)
    token.write_text(server.issue())
    rules = tuple(CommandRule(command=f"git {name}", verdict="ask") for name in ("fetch", "pull", "push", "checkout"))
    settings = GitSettings(
        allowed=(f"{server.origin}/ada/*",),
        source=TokenFile(str(token), origin=server.origin),
        ca_file=str(server.certificate),
    )
    preset = getattr(request, "param", None)
    policy = Policy(name="house", shell=ShellPolicy(rules=rules)) if preset is None else presets.load_preset(preset)
    with opened(tmp_path, provider="bubblewrap", git=settings, policy=policy) as tools:
        tools.repository()
        tools.git("remote", "add", "origin", server.url())
        yield tools


def test_what_is_remembered_and_what_is_not(asking: Interface, server: GitServer) -> None:
    asking.git("branch", "x")
    asked = Asked(asking, action="push", branch="x")
    assert "remember" not in asked.pending
    with pytest.raises(InvalidArgument, match="for good") as caught:
        asked.approve(remember=True)
    assert "the url and the branch that the call names" in caught.value.text
    asked = Asked(asking, action="push", branch="x", url=server.url())
    assert asked.pending["remember"] == f"git push {server.url()} x"
    assert asked.approve(remember=True)["exit_code"] == 0
    assert asking("git", action="push", branch="x", url=server.url())["exit_code"] == 0
    for fields in ({"branch": "y", "url": server.url()}, {"branch": "x"}):
        assert asking.refuse("git", action="push", **fields).code is Code.APPROVAL_REQUIRED


@pytest.mark.parametrize("asking", [None, "standard"], indirect=True)
def test_the_files_and_the_branch_that_git_changed_are_put_back(
    asking: Interface, server: GitServer, tmp_path: Path
) -> None:
    bare, other = server.repositories / "ada/engine.git", tmp_path / "other"
    plain(asking.root, "push", "--quiet", str(bare), "main")
    plain(bare, "clone", "--quiet", str(bare), str(other))
    (other / "README.md").write_text("theirs\n")
    (other / "b.txt").write_text("theirs\n")
    plain(other, "add", "--all")
    plain(other, "commit", "--quiet", "--message", "theirs")
    plain(other, "push", "--quiet", "origin", "main")
    head = asking.git("rev-parse", "HEAD")
    asked = Asked(asking, action="pull")
    assert asked.approve()["kind"] == "fast-forward"
    assert (asking.root / "b.txt").exists()
    assert asking.git("rev-parse", "HEAD") != head
    (undone,) = asked.revert()["events"]
    assert undone["success"]
    assert not (asking.root / "b.txt").exists() and (asking.root / "README.md").read_text() == "hello\n"
    assert asking.git("rev-parse", "HEAD") == head


def test_a_transfer_waits_for_another_with_an_end(team: Team) -> None:
    from wap_kernel.git.remote.server_repository import ServerRepository

    with team.link().server.lock():
        waiting = ServerRepository(str(team.state), team.remote(), environment={}, lock_seconds=0.1)
        with pytest.raises(GitError) as caught, waiting.lock():
            raise AssertionError("it is held by another")
    assert caught.value.failure.reason is GitFailureReason.LOCKED and "Try again later" in caught.value.failure.text
    with waiting.lock():
        pass


def test_a_transfer_that_waits_can_be_cancelled(team: Team) -> None:
    from wap_kernel.git.remote.server_repository import ServerRepository
    from wap_kernel.model.command import CancelToken

    cancel = CancelToken()
    cancel.request()
    with team.link().server.lock():
        waiting = ServerRepository(str(team.state), team.remote(), environment={}, cancel=cancel)
        with pytest.raises(GitError) as caught, waiting.lock():
            raise AssertionError("it is held by another")
    assert caught.value.failure.reason is GitFailureReason.CANCELLED


@pytest.mark.parametrize("asking", ["standard"], indirect=True)
def test_a_pull_that_would_lose_what_undo_cannot_keep_changes_nothing(
    asking: Interface, server: GitServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The approval of a pull shows commits, and not what is lost with them."""
    bare, other = server.repositories / "ada/engine.git", tmp_path / "other"
    plain(asking.root, "push", "--quiet", str(bare), "main")
    plain(bare, "clone", "--quiet", str(bare), str(other))
    (other / "README.md").write_text("theirs\n")
    plain(other, "commit", "--quiet", "--all", "--message", "theirs")
    plain(other, "push", "--quiet", "origin", "main")
    head, before = asking.git("rev-parse", "HEAD"), (asking.root / "README.md").read_text()
    asked = Asked(asking, action="pull")
    monkeypatch.setattr(ImageStore, "is_near", lambda *_: False)  # the state is as if it lay on another filesystem
    monkeypatch.setattr(image_store, "MAX_COPIED_FILE_BYTES", 1)
    answer = asked.approve()
    assert answer["code"] == "SIZE_LIMIT_EXCEEDED" and "README.md" in str(answer), answer
    assert (asking.git("rev-parse", "HEAD"), (asking.root / "README.md").read_text()) == (head, before)
