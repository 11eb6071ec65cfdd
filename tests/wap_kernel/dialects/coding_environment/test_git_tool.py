"""git as MCP clients have it: every action and field, its paths, who may, who must agree, and with a remote."""

from __future__ import annotations

import json
import posixpath
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from pydantic.alias_generators import to_camel

from tests.support.coding_environment import WAIT, Coding, play
from tests.support.git_repository import BOT, plain
from tests.support.git_server import APP_ID, GitServer
from tests.support.provider_workspace import skip_unless_works
from wap_kernel.dialects import json_schema
from wap_kernel.dialects.coding_environment import progress as call_progress
from wap_kernel.dialects.coding_environment.confirmation_prompt import ConfirmationPrompt
from wap_kernel.dialects.coding_environment.outcome import encode_result
from wap_kernel.dialects.coding_environment.tools import TOOLS
from wap_kernel.dialects.coding_environment.workspace_root import RootFolder
from wap_kernel.dialects.tool_interface import git_answers
from wap_kernel.dialects.tool_interface import tools as interface_tools
from wap_kernel.dialects.tool_interface.git_parameters import FIELDS
from wap_kernel.git.remote.github_app import GitHubApp
from wap_kernel.git.settings import GitSettings
from wap_kernel.model.caller import Caller, Scope
from wap_kernel.model.errors import PermissionDenied
from wap_kernel.model.git import results as answers
from wap_kernel.model.git.operations import GitRead
from wap_kernel.model.git.results import GitResult
from wap_kernel.model.limits import INTERFACE_MAX_GIT_FILES, MAX_MASKS
from wap_kernel.model.operations import Effect
from wap_kernel.model.policy import Policy
from wap_kernel.state.audit.query import AuditQuery

ASKING = Policy(name="asking", confirmation_required=("git",))
Git = Callable[..., Any]
LONG = "https://h/o/n.git"
REQUESTS: list[dict[str, Any]] = [
    {"action": "status", "workdir": "app"},
    {"action": "diff", "files": ["app", "a.py"]},
    {"action": "log", "files": ["app"], "ref": "a..b", "limit": 1, "skip": 2},
    {"action": "show", "ref": "HEAD:a.py"},
    {"action": "commit", "message": "m", "files": ["."], "workdir": "app", "author": "Ada <ada@example.org>"},
    {"action": "checkout", "branch": "work"},
    {"action": "branch"},
    {"action": "branch", "branch": "side", "ref": "HEAD~1"},
    {"action": "branch", "branch": "side", "delete": True, "force": True},
    {"action": "add", "files": ["../a.py"], "workdir": "app"},
    {"action": "restore", "files": ["a.py"], "staged": True},
    {"action": "restore", "files": ["a.py"], "ref": "HEAD~1"},
    {"action": "fetch", "url": LONG},
    {"action": "pull", "url": LONG},
    {"action": "push", "url": LONG, "branch": "work", "force": True, "delete": True},
    {"action": "clone", "url": LONG, "path": "copy", "branch": "work", "workdir": "app"},
]
"""Every action, and every field that it takes."""


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda request: request["action"])
def test_it_means_what_the_workspace_tool_interface_means(request_: dict[str, Any]) -> None:
    body, names = json.dumps(request_).encode(), ("/srv/ws",)
    meant = interface_tools.TOOLS["git"].parse(body).operation(names)
    sent = TOOLS["git"].parse(body)
    assert sent.build_operation(RootFolder(".", names)) == meant
    below = TOOLS["git"].parse(json.dumps({**request_, "confirmed": True}).encode())
    if request_.get("files") != ["../a.py"]:
        moved = below.build_operation(RootFolder("sub", ("/srv/ws/sub",)))
        assert (moved.within, moved.confirmed, moved.effect) == ("sub", True, meant.effect)
        assert moved.folder == posixpath.normpath(f"sub/{meant.folder}")
        assert moved.files == tuple(posixpath.normpath(f"sub/{path}") for path in meant.files)


def test_every_field_is_tried() -> None:
    fields = {name for request in REQUESTS for name in request}
    assert fields | {"workspaceRoot", "confirmed", "depth"} == {
        field.alias for field in TOOLS["git"].parameters.model_fields.values()
    }
    assert {request["action"] for request in REQUESTS} == set(FIELDS)


PERSON = answers.Person("Ada", "ada@example.org")
COMMIT = answers.Commit("c1", ("c0",), PERSON, "2026-01-01", PERSON, "2026-01-01", "subject", "body")
DIFF = answers.Diff((answers.FileDiff("app/a", "renamed", 1, None, "patch", "app/b"),), 2, True)
CHANGE = answers.ChangedFile("app/a", "renamed", "app/b")
ACTED: list[object] = [
    answers.GitStatus("main", "c1", None, 1, 2, (CHANGE,), (), ("app/c",), (), 3, "merge", "note"),
    answers.WorkingTreeDiff(DIFF, DIFF),
    answers.CommitLog((COMMIT,), True),
    answers.CommitDetails(COMMIT, DIFF),
    answers.FileAtCommit("app/a", "c1", 3, "abc", False),
    answers.FolderAtCommit("app", "c1", ("a", "b/"), 1),
    answers.CommitResult("c1", "main", PERSON, 2),
    answers.AddResult(("app/a",), 0),
    answers.CheckoutResult("main", "c1", True),
    answers.BranchList("main", (answers.Branch("main", "c1", True, False),)),
    answers.PullResult(
        answers.FetchResult("origin", (answers.RefChange("origin/main", None, "c1"),)), "main", "c0", "c1", "merge"
    ),
    answers.CloneResult("origin", "app/copy", "main", "c1"),
    answers.GitFailure(answers.GitFailureReason.CONFLICTS, "Solve them.", 1, "stderr", ("app/a",)),
]


@pytest.fixture(scope="module")
def described() -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(json_schema.build_schema(TOOLS["git"].response, "serialization"))


@pytest.mark.parametrize("answer", ACTED, ids=lambda answer: type(answer).__name__)
def test_it_answers_the_same_in_this_dialects_spelling(answer: Any, described: jsonschema.Draft202012Validator) -> None:
    failed = isinstance(answer, answers.GitFailure)
    result = GitResult(failure=answer) if failed else GitResult(answer=answer)
    theirs = git_answers.answer_git(GitRead(action="status"), result).model_dump(exclude_none=True)
    for within in (".", "app"):
        outcome = encode_result(TOOLS["git"], GitRead(action="status", within=within), result)
        described.validate(outcome.structured)
        assert outcome.structured == _respelled(theirs, within)


def _respelled(value: Any, within: str) -> Any:
    if isinstance(value, dict):
        return {to_camel(name): _respelled(each, within) for name, each in value.items()}
    if isinstance(value, list):
        return [_respelled(each, within) for each in value]
    prefix = "/workspace/" if within == "." else f"/workspace/{within}/"
    if value == prefix.rstrip("/"):
        return "."
    return value.removeprefix(prefix) if isinstance(value, str) else value


@pytest.fixture
def repository(coding: Coding) -> Coding:
    (coding.root / "app" / "src").mkdir(parents=True)
    (coding.root / "app" / "src" / "a.py").write_text("x = 1\n")
    plain(coding.root, "init", "--quiet", "--initial-branch=main")
    plain(coding.root, "add", "--all")
    plain(coding.root, "commit", "--quiet", "--message", "first")
    return coding


def _git(coding: Coding, **fixed: Any) -> Git:
    async def call(action: str, **fields: Any) -> dict[str, Any]:
        return await coding.call("git", {"action": action, **fields}, **fixed)

    return call


def test_it_stays_in_workspace_root_and_says_paths_from_there(repository: Coding) -> None:
    (repository.root / "secret.py").write_text("outside")
    file = repository.root / "app" / "src" / "a.py"
    file.write_text("x = 2\n")

    async def scenario(coding: Coding) -> None:
        git = _git(coding)
        status = await git("status", workspaceRoot="app")
        assert [change["path"] for change in status["changed"]] == ["src/a.py"]
        assert "secret.py" not in json.dumps(status)
        made = await git("commit", message="two", workspaceRoot="app", workdir="src", files=[str(file), "../src/a.py"])
        assert (made["exitCode"], made["files"], made["author"]["name"]) == (0, 1, BOT.name)
        outside: list[dict[str, Any]] = [
            {"action": "add", "files": ["../secret.py"]},
            {"action": "add", "files": [str(coding.root / "secret.py")]},
            {"action": "status", "workdir": ".."},
            {"action": "clone", "url": LONG, "path": "../n"},
        ]
        for arguments in outside:
            error = await coding.fail("git", {"workspaceRoot": "app", **arguments})
            assert error["code"] == "PERMISSION_DENIED", arguments
        refused = await git("commit", message="none")
        assert (refused["exitCode"], refused["reason"]) == (1, "nothing") and refused["message"]

    play(repository, scenario, git=GitSettings(identity=BOT))
    assert plain(repository.root, "show", "--format=%s", "--name-only") == "two\n\napp/src/a.py\n"


def test_in_the_sandbox_too_whatever_lies_beside_workspace_root(repository: Coding) -> None:
    """A link to it, and more files than a sandbox can hide."""
    skip_unless_works("bubblewrap")
    (repository.root / "app" / "src" / "a.py").write_text("x = 2\n")
    (repository.root / "latest").symlink_to("app")
    for number in range(MAX_MASKS + 1):
        (repository.root / f"{number}.txt").touch()

    async def scenario(coding: Coding) -> None:
        git = _git(coding)
        for folder in ("app", "app/src", "latest/src"):
            status = await git("status", workspaceRoot=folder)
            assert [posixpath.basename(change["path"]) for change in status["changed"]] == ["a.py"], status
            assert status["untracked"] == []

    play(repository, scenario, provider="bubblewrap")


def test_what_somebody_staged_outside_of_workspace_root_is_not_committed(repository: Coding) -> None:
    for path in ("app/src/a.py", "top.py", "moved.py"):
        (repository.root / path).write_text(f"{path}\n" * 9)
    plain(repository.root, "add", "moved.py")
    plain(repository.root, "commit", "--quiet", "--message", "second")

    async def scenario(coding: Coding) -> None:
        commit = {"action": "commit", "message": "mine", "workspaceRoot": "app"}
        for staging in (("add", "top.py"), ("mv", "moved.py", "app/moved.py")):
            plain(coding.root, *staging)
            refused = await coding.fail("git", commit)
            assert refused["code"] == "PERMISSION_DENIED" and "staged" in refused["error"], refused
            assert ".py" not in refused["error"]
            plain(coding.root, "reset", "--quiet", "--hard", "HEAD")
            (coding.root / "app" / "src" / "a.py").write_text("x = 3\n")
        plain(coding.root, "rm", "--quiet", "--cached", "moved.py")
        assert (await coding.call("git", {**commit, "files": ["."]}))["files"] == 1
        assert plain(coding.root, "diff", "--cached", "--name-only") == "moved.py\n"

    play(repository, scenario, git=GitSettings(identity=BOT))
    assert plain(repository.root, "show", "--format=%s", "--name-only") == "mine\n\napp/src/a.py\n"


def test_as_many_files_as_may_be_named_fit_into_a_sandbox(repository: Coding) -> None:
    skip_unless_works("bubblewrap")

    async def scenario(coding: Coding) -> None:
        git = _git(coding)
        many = [f"{number}.py" for number in range(INTERFACE_MAX_GIT_FILES)]
        for action in ("add", "diff", "log", "restore"):
            assert (await git(action, files=many)).get("reason") in (None, "unknown-path")
        assert "at most" in (await coding.fail("git", {"action": "diff", "files": [*many, "a"]}))["error"]

    play(repository, scenario, provider="bubblewrap")


WRONG: list[tuple[dict[str, Any], str]] = [
    ({}, "action: This field is required."),
    ({"action": "rebase"}, "action"),
    ({"action": "commit"}, "message: This field is required for commit."),
    ({"action": "status", "branch": "x"}, "branch: This field does not belong to status."),
    ({"action": "branch", "delete": True, "confirmed": True}, "branch: This field is required with delete."),
    ({"action": "clone", "url": "https://h/o/n", "path": "n", "depth": 1}, "Shallow clones"),
    ({"action": "status", "colour": 1}, "Unknown field"),
]


def test_what_is_wrong_is_a_result_that_says_so(repository: Coding) -> None:
    async def scenario(coding: Coding) -> None:
        for arguments, text in WRONG:
            error = await coding.fail("git", arguments)
            assert error["code"] == "INVALID_ARGUMENT" and text in error["error"], error
        assert (await coding.fail("git", {"action": "fetch"}))["code"] == "PROVIDER_UNAVAILABLE"
        assert (await coding.fail("git", {"action": "status", "workdir": "no"}))["code"] == "FILE_NOT_FOUND"

    play(repository, scenario)


def test_who_may(repository: Coding) -> None:
    asked: list[Effect] = []

    async def reads(effect: Effect) -> None:
        asked.append(effect)
        if effect is not Effect.READ:
            raise PermissionDenied("No.", hint="Ask.")

    def agent(*tools: str) -> Caller:
        return Caller(user="ada", agent="bot", token="t", scope=Scope(tools=frozenset(tools)))

    async def scenario(coding: Coding) -> None:
        await coding.call("git", {"action": "status"}, authorize=reads)
        for action in ({"action": "commit", "message": "m"}, {"action": "push"}):
            assert (await coding.fail("git", action, authorize=reads))["code"] == "PERMISSION_DENIED"
        assert asked == [Effect.READ, Effect.READ, Effect.WRITE, Effect.READ, Effect.EXECUTE]
        closed = await coding.fail("git", {"wrong": 1}, caller=agent("readFile"))
        assert closed["details"]["rule"] == "token.tools"
        # Nothing confines commands here, and git is one.
        opened = await coding.fail("git", {"action": "status"}, caller=agent("git"))
        assert opened["code"] == "PROVIDER_UNAVAILABLE"
        records = (await coding.workspace.audit_page(AuditQuery(limit=50)))["records"]
        assert [(one["tool"], one["outcome"]) for one in reversed(records)] == [
            ("git", "ok"),
            *[("git", "denied")] * 3,
            ("git", "failed"),
        ]

    play(repository, scenario)
    assert TOOLS["git"].is_opened_by(frozenset({"git"})) and TOOLS["getRun"].is_opened_by(frozenset({"git"}))


def test_the_user_is_shown_what_git_is_told(repository: Coding) -> None:
    repository.policy(confirmationRequired=["git"])
    (repository.root / "app" / "src" / "a.py").write_text("x = 2\n")
    asked: list[ConfirmationPrompt] = []
    answers = [False, True]

    async def confirm(prompt: ConfirmationPrompt) -> bool:
        asked.append(prompt)
        return answers.pop(0)

    async def scenario(coding: Coding) -> None:
        commit = {"action": "commit", "message": "say\x1b[2J it", "files": ["src"], "workspaceRoot": "app"}
        declined = await coding.fail("git", commit, confirm=confirm)
        assert (declined["code"], declined["details"]["declined"]) == ("APPROVAL_REQUIRED", True)
        assert (await coding.call("git", commit, confirm=confirm))["exitCode"] == 0
        text = asked[1].text
        assert "Command: git commit" in text and "File: app/src" in text and "Message: say" in text
        assert "\x1b" not in text
        without = await coding.fail("git", {"action": "status"})
        assert without["code"] == "APPROVAL_REQUIRED" and "confirmed: true" in without["error"]
        assert (await coding.call("git", {"action": "status", "confirmed": True}))["changed"] == []

    play(repository, scenario, git=GitSettings(identity=BOT))


def test_what_an_administrator_asks_about_waits_for_a_person(repository: Coding) -> None:
    async def scenario(coding: Coding) -> None:
        waiting = await coding.fail("git", {"action": "log", "confirmed": True})
        assert waiting["code"] == "APPROVAL_REQUIRED" and waiting["details"]["approvalId"]
        run_id = waiting["details"]["runId"]
        await coding.decide(run_id, True)
        run = await coding.call("getRun", {"runId": run_id, "wait": WAIT})
        assert run["response"]["commits"][0]["subject"] == "first" and run["response"]["exitCode"] == 0

    play(repository, scenario, policy=ASKING)


def test_remotes(repository: Coding, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_progress, "HEARTBEAT_SECONDS", 0.01)
    server = GitServer(tmp_path / "server")
    server.create()
    app = GitHubApp(
        APP_ID, str(server.app_key_file), base_url=server.origin, ca_file=str(server.certificate), identity=BOT
    )
    messages: list[str] = []

    async def progress(seconds: float, total: float | None, text: str) -> None:
        messages.append(text)

    async def scenario(coding: Coding) -> None:
        git = _git(coding, progress=progress)
        where = {"branch": "work", "url": server.url()}
        plain(coding.root, "branch", "work")
        pushed = await git("push", **where)
        assert (pushed["exitCode"], pushed["refs"][0]["name"]) == (0, "work")
        cloned = await git("clone", path="copy", workspaceRoot="app", **where)
        assert (cloned["path"], cloned["branch"]) == ("copy", "work")
        assert (coding.root / "app" / "copy" / "app" / "src" / "a.py").exists()
        forced = await coding.fail("git", {"action": "push", "force": True, "confirmed": True, **where})
        assert forced["code"] == "APPROVAL_REQUIRED" and forced["details"]["runId"]

    try:
        settings = GitSettings(allowed=(f"{server.origin}/ada/*",), source=app, ca_file=str(server.certificate))
        play(repository, scenario, git=settings)
    finally:
        server.close()
    assert set(messages) == {"Git is at work."}
