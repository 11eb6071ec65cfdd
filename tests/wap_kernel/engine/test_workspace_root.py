"""Operations that stay in a folder of the workspace, are confirmed by the caller, or run a program without a shell."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from wap_kernel.engine.workspace import Workspace
from wap_kernel.model.caller import Caller
from wap_kernel.model.errors import ApprovalRequired, FileNotFound, PermissionDenied, WapError
from wap_kernel.model.operations import ListFiles, Operation, ReadFile, RunCommand, SearchFiles, WriteFile
from wap_kernel.model.policy import Policy
from wap_kernel.model.results import CommandResult, FileContent, FileList, Result, SearchResult
from wap_kernel.policy import presets

Perform = Callable[..., Result]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    for folder in ("project/src", "other"):
        (root / folder).mkdir(parents=True)
    (root / "project/src/a.py").write_text("needle\n")
    (root / "project/secret.txt").write_text("needle\n")
    (root / "other/b.py").write_text("needle\n")
    (root / "project/link").symlink_to("../other")
    return root


@pytest.fixture
def perform(root: Path, tmp_path: Path) -> Perform:
    def perform(operation: Operation, policy: Policy | None = None) -> Result:
        async def work() -> Result:
            workspace = Workspace(
                str(root), policy=policy or Policy(name="open"), provider="local", state_dir=str(tmp_path / "state")
            )
            try:
                return await workspace.perform(operation, Caller())
            finally:
                await workspace.close()

        return asyncio.run(work())

    return perform


def _policy(folder: Path, **fields: Any) -> None:
    (folder / ".cws-policy.json").write_text(json.dumps(fields))


def test_what_is_in_the_folder_is_reached(perform: Perform) -> None:
    read = perform(ReadFile(path="project/src/a.py", within="project"))
    assert isinstance(read, FileContent) and read.content == "needle\n"
    found = perform(SearchFiles(paths=("project",), query="needle", within="project"))
    assert isinstance(found, SearchResult) and found.total_matches == 2
    perform(WriteFile(path="project/new/x", content=b"1", create_directories=True, within="project"))


@pytest.mark.parametrize("path", ["other/b.py", "project/link/b.py", "project/../other/b.py"])
def test_what_is_outside_of_the_folder_is_not(perform: Perform, path: str) -> None:
    with pytest.raises(PermissionDenied):
        perform(ReadFile(path=path, within="project"))
    with pytest.raises(PermissionDenied):
        perform(WriteFile(path=path, content=b"", within="project"))


def test_the_folder_has_a_policy_of_its_own_beside_that_of_the_root(root: Path, perform: Perform) -> None:
    _policy(root, deniedPaths=["src"])
    _policy(root / "project", deniedPaths=["secret.txt"])
    for path in ("project/secret.txt", "project/src/a.py"):
        with pytest.raises(PermissionDenied):
            perform(ReadFile(path=path, within="project"))
    listed = perform(ListFiles(path="project", within="project"))
    assert isinstance(listed, FileList)
    assert [entry.path for entry in listed.files] == ["project/.cws-policy.json", "project/link"]
    assert perform(ReadFile(path="project/secret.txt")), "it speaks for those who stay in its folder"


def test_a_folder_whose_policy_cannot_be_read_refuses_everything(root: Path, perform: Perform) -> None:
    (root / "project/.cws-policy.json").write_text("{")
    with pytest.raises(PermissionDenied, match=r"project/\.cws-policy\.json"):
        perform(ReadFile(path="project/src/a.py", within="project"))


def test_a_change_of_the_policy_counts_at_once(root: Path, tmp_path: Path) -> None:
    async def work() -> None:
        workspace = Workspace(str(root), provider="local", state_dir=str(tmp_path / "state"))
        try:
            read = ReadFile(path="project/secret.txt", within="project")
            await workspace.perform(read)
            _policy(root / "project", deniedPaths=["secret.txt"])
            with pytest.raises(PermissionDenied):
                await workspace.perform(read)
            (root / "project/.cws-policy.json").unlink()
            await workspace.perform(read)
        finally:
            await workspace.close()

    asyncio.run(work())


@pytest.mark.parametrize(("folder", "error"), [("missing", FileNotFound), ("project/secret.txt", FileNotFound)])
def test_the_folder_must_be_one(perform: Perform, folder: str, error: type[WapError]) -> None:
    with pytest.raises(error):
        perform(ReadFile(path=f"{folder}/a", within=folder))


def test_a_folder_outside_of_the_root_is_none(perform: Perform) -> None:
    with pytest.raises(PermissionDenied):
        perform(ReadFile(path="../x", within=".."))


def test_a_command_begins_in_the_folder(perform: Perform) -> None:
    ran = perform(RunCommand(command="pwd", args=(), cwd="project/src", within="project"))
    assert isinstance(ran, CommandResult) and ran.stdout.endswith("/project/src\n")
    for cwd in (".", "other", "project/link"):
        with pytest.raises(PermissionDenied):
            perform(RunCommand(command="pwd", args=(), cwd=cwd, within="project"))


# -- confirmed


def test_the_callers_word_satisfies_the_workspaces_own_policy_files_only(root: Path, perform: Perform) -> None:
    command = RunCommand(command="true", args=())
    confirmed = command.model_copy(update={"confirmed": True})
    _policy(root, confirmationRequired=["runCommand"])
    with pytest.raises(ApprovalRequired):
        perform(command)
    assert perform(confirmed)
    asking = Policy(name="administrator", confirmation_required=("runCommand",))
    with pytest.raises(ApprovalRequired):
        perform(confirmed, asking)


def test_nor_does_it_satisfy_a_preset(perform: Perform) -> None:
    with pytest.raises(ApprovalRequired):
        perform(RunCommand(command="rm", args=("-r", "project"), confirmed=True), presets.load_preset("permissive"))


def test_it_satisfies_the_policy_of_the_folder_too(root: Path, perform: Perform) -> None:
    _policy(root / "project", confirmationRequired=["task.run"])
    command = RunCommand(command="true", args=(), cwd="project", within="project")
    with pytest.raises(ApprovalRequired):
        perform(command)
    assert perform(command.model_copy(update={"confirmed": True}))


# -- without a shell


@pytest.mark.parametrize(
    "word", ["; touch x", "$(touch x)", "`touch x`", "*", "~", "a b", "", "'", '"', "\\", "A=b", "\n"]
)
def test_arguments_arrive_as_they_are(root: Path, perform: Perform, word: str) -> None:
    ran = perform(RunCommand(command="printf", args=("[%s]", word)))
    assert isinstance(ran, CommandResult) and ran.stdout == f"[{word}]"
    assert not (root / "x").exists()


def test_a_program_that_looks_like_an_assignment_is_a_program(perform: Perform) -> None:
    command = RunCommand(command="A=b", args=("id",))
    assert command.line == "'A=b' id"
    with pytest.raises(WapError, match="No such program"):
        perform(command)


@pytest.mark.parametrize(
    ("command", "args"), [("sudo", ("id",)), ("env", ("sudo", "id")), ("rm", ("-rf", "/")), ("/usr/bin/sudo", ())]
)
def test_the_policy_reads_them_like_a_line(perform: Perform, command: str, args: tuple[str, ...]) -> None:
    with pytest.raises(PermissionDenied):
        perform(RunCommand(command=command, args=args), presets.load_preset("permissive"))
