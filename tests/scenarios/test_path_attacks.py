"""What is tried against WAP tools: paths that leave the root, malformed or odd ones, planted repositories."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.support.wap_calls import ON_PATH
from wap_kernel.model.errors import Code, WapError

OUTSIDE = [
    "../outside/secret",
    "..",
    "/etc/passwd",
    "//etc/passwd",
    "/",
    "../ws2/secret",
    "a/../../outside/secret",
    "a/b/../../../outside/secret",
    "/../../etc/passwd",
    "out-link",
    "out-folder/secret",
    "out-folder/new",
    "out-folder/new/deeper",
    "dangling",
    "proc/etc/passwd",
]
ACTS_ON_THE_LINK_ITSELF = {"deleteFile", "moveFile from", "moveFile to"}


@pytest.fixture
def attacked(tools: Any) -> Any:
    root, outside = tools.root, tools.outside
    (root.parent / "ws2").mkdir()
    (root.parent / "ws2" / "secret").write_text("secret\n")
    (outside / "secret").write_text("secret\n")
    (root / "a" / "b").mkdir(parents=True)
    (root / "inside.txt").write_text("inside\n")
    (root / "out-link").symlink_to(outside / "secret")
    (root / "out-folder").symlink_to(outside)
    (root / "dangling").symlink_to(outside / "not-there")
    (root / "proc").symlink_to("/proc/self/root")
    return tools


def everything(folder: Path) -> dict[str, object]:
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


@pytest.mark.parametrize("path", OUTSIDE)
def test_a_path_that_leaves_the_root_is_refused_by_every_tool(attacked: Any, path: str) -> None:
    before = everything(attacked.outside)
    for case, parameters in ON_PATH.items():
        if case in ACTS_ON_THE_LINK_ITSELF and path in ("out-link", "dangling"):
            continue
        error = attacked.refuse(case.split()[0], **parameters(path))
        assert error.code is Code.PERMISSION_DENIED, (case, error.message)
        assert "secret\n" not in json.dumps(error.details)
    assert everything(attacked.outside) == before
    assert not (attacked.root / "stolen").exists()


@pytest.mark.parametrize("case", ON_PATH)
def test_the_refusal_does_not_tell_whether_the_target_exists(attacked: Any, case: str) -> None:
    def refusal(path: str) -> tuple[Code, str]:
        error = attacked.refuse(case.split()[0], **ON_PATH[case](path))
        return error.code, error.text.replace(path, "PATH")

    assert refusal("out-folder/secret") == refusal("out-folder/not-there")
    assert refusal("/etc/passwd") == refusal("/etc/not-there")


MALFORMED = ["", "a\0b", "x" * 256, "x/" * 5000 + "y", "ä" * 128, "a/" + "y" * 4096]


@pytest.mark.parametrize("path", MALFORMED, ids=lambda path: f"{len(path)} characters")
def test_a_malformed_path_is_an_invalid_argument_in_every_tool(attacked: Any, path: str) -> None:
    for case, parameters in ON_PATH.items():
        assert attacked.refuse(case.split()[0], **parameters(path)).code is Code.INVALID_ARGUMENT, case


@pytest.mark.parametrize("body", [rb'{"path": "a\ud800b"}', rb'{"path": "a\udcffb"}', b'{"path": "a\xffb"}'])
def test_a_lone_surrogate_or_bad_utf8_is_an_invalid_argument(tools: Any, body: bytes) -> None:
    with pytest.raises(WapError) as caught:
        asyncio.run(tools.send("readFile", body))
    assert caught.value.code is Code.INVALID_ARGUMENT


@pytest.mark.parametrize("name", ["~", "$HOME", "%2e%2e", "-rf", "--", "*", "a;b", "a\nb", "\x1b[31mred", "ü", "'\""])
def test_odd_names_are_just_names(tools: Any, name: str) -> None:
    path = f"{name}/{name}"
    tools.writeFile(path=path, content="odd\n", createDirectories=True)
    assert (tools.root / name / name).read_text() == "odd\n"
    assert tools.readFile(path=path)["content"] == "odd\n"
    assert [file["path"] for file in tools.exploreFiles(path=name)["files"]] == [path]
    for kind in ("literal", "regex"):
        assert [match["path"] for match in tools.searchFiles(paths=[name], query="odd", type=kind)["matches"]] == [path]
    assert tools.executeCommand(command="ls", workingDirectory=name)["exitCode"] == 0
    tools.deleteFile(path=path)
    assert os.listdir(tools.root / name) == []


def test_names_that_are_not_utf8_are_listed_escaped(tools: Any) -> None:
    with open(os.fsencode(tools.root) + b"/bad\xff.txt", "w") as file:
        file.write("needle\n")
    assert [file["path"] for file in tools.exploreFiles(path=".")["files"]] == ["bad\\xff.txt"]
    for kind in ("literal", "regex"):
        found = tools.searchFiles(paths=["."], query="needle", type=kind)
        assert [match["path"] for match in found["matches"]] == ["bad\\xff.txt"]


def test_deleting_a_link_removes_the_link_only(attacked: Any) -> None:
    for name in ("out-link", "out-folder", "dangling"):
        attacked.deleteFile(path=name)
        assert not (attacked.root / name).is_symlink()
    assert (attacked.outside / "secret").read_text() == "secret\n"


@pytest.mark.parametrize("patterns", [["../**"], ["/../**"], ["~/**"]])
def test_exclusions_that_point_outside_exclude_nothing(attacked: Any, patterns: list[str]) -> None:
    plain = attacked.exploreFiles(path=".", recursive=True, excludePatterns=[])
    assert attacked.exploreFiles(path=".", recursive=True, excludePatterns=patterns) == plain


def test_absolute_paths_inside_the_root_are_accepted(attacked: Any) -> None:
    assert attacked.readFile(path=str(attacked.root / "inside.txt"))["content"] == "inside\n"
    assert attacked.writeFile(path=str(attacked.root / "new"), content="x")["path"] == "new"
    assert attacked.executeCommand(command="pwd", workingDirectory=str(attacked.root / "a"))["stdout"].endswith("/a\n")


def test_a_planted_repository_runs_nothing(tools: Any) -> None:
    marker = tools.outside / "ran"
    for name, text in {
        "HEAD": "ref: refs/heads/main\n",
        "objects/x": "",
        "refs/x": "",
        "config": f'[core]\nrepositoryformatversion=0\nbare=false\nworktree=.\nfsmonitor="touch {marker}; false"\n',
    }.items():
        (tools.root / "evil" / name).parent.mkdir(parents=True, exist_ok=True)
        (tools.root / "evil" / name).write_text(text)  # the tools refuse to complete a repository
    for command in ("git -C evil status", "cd evil; git status", "cd evil; git diff; git ls-files -m"):
        tools.executeCommand(command=command)
    assert not marker.exists()


def test_a_policy_file_that_is_a_link_refuses_everything(tools: Any) -> None:
    tools.writeFile(path="conf/policy.json", content="{}", createDirectories=True)
    assert tools.readFile(path="conf/policy.json")["content"] == "{}"
    (tools.root / ".cws-policy.json").symlink_to("conf/policy.json")
    refusal = tools.refuse("readFile", path="conf/policy.json")
    assert refusal.code is Code.PERMISSION_DENIED and "link" in refusal.text
