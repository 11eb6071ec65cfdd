"""The rename race: another process swaps a folder for a link to outside while every tool works in it.

"realpath, then open" loses this race a few times in a thousand. Here: no effect and no content from outside, ever.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.budgets import choose_budget
from tests.support.rename_attacker import swapping
from wap_kernel.files.contained import openat2
from wap_kernel.files.contained.root import Root
from wap_kernel.model.errors import Code, WapError

READ_TRIES = choose_budget(suite=3000, soak=10_000)
TRIES = choose_budget(suite=60, soak=10_000)
"""At least: tries go on until the attacker got in between."""
PATIENCE = 50
OUTSIDE_IS_REFUSED = {Code.PERMISSION_DENIED, errno.EXDEV}

INSIDE = {"f": b"inside\n", "g": b"inside\n"}
# Of another size and with more lines: whoever counts some of it cannot have counted what is inside.
OUTSIDE = dict.fromkeys(("f", "g", "secret"), b"outside\n" * 9)


@pytest.fixture(params=["openat2", "walk"])
def attacked(
    request: pytest.FixtureRequest, tmp_path: Path, make_tools: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Any]:
    """A workspace in which `swap` is a folder at one moment and a link to outside at the next."""
    if not sys.platform.startswith("linux"):
        pytest.skip("RENAME_EXCHANGE is Linux's")
    if request.param == "walk":
        monkeypatch.setattr(openat2, "load", lambda **_: None)
    tools = make_tools()
    assert (tools.workspace._files._open_beneath is None) == (request.param == "walk")
    (tools.root / "swap").mkdir()
    for folder, files in ((tools.outside, OUTSIDE), (tools.root / "swap", INSIDE)):
        for name, content in files.items():
            (folder / name).write_bytes(content)
    (tools.root / "evil").symlink_to(tools.outside)
    tools.inside = os.open(tools.root / "swap", os.O_PATH)
    with swapping(tools.root / "swap", tools.root / "evil"):
        yield tools
    os.close(tools.inside)
    assert {path.name: path.read_bytes() for path in tools.outside.iterdir()} == OUTSIDE


def attempts(count: int, act: Callable[[], object], *, starts_in_it: bool = True) -> list[Any]:
    """The answers of the tries that came through. A bug is not a refusal."""
    answers: list[Any] = []
    refusals: set[Any] = set()
    for _ in range(PATIENCE):  # on a busy machine the folder may be the same one at nearly every look
        for _ in range(count):
            try:
                answers.append(act())
            except WapError as error:
                refusals.add(error.code)
            except OSError as error:
                refusals.add(error.errno)
        if answers and (not starts_in_it or refusals & OUTSIDE_IS_REFUSED):
            break
    assert Code.INTERNAL_ERROR not in refusals
    assert answers, "nothing came through, so this shows nothing"
    if starts_in_it:
        assert refusals & OUTSIDE_IS_REFUSED, "the attacker never got in between"
    return answers


@pytest.mark.soak
def test_read_and_stat(attacked: Any) -> None:
    root: Root = attacked.workspace._files
    outside_inode = (attacked.outside / "f").stat().st_ino

    def read() -> bytes:
        with root.open("swap/f") as file:
            assert os.fstat(file.fd).st_ino != outside_inode
            return file.read()

    assert set(attempts(READ_TRIES, read)) == {INSIDE["f"]}
    assert set(attempts(READ_TRIES, lambda: root.stat("swap/f").size)) == {len(INSIDE["f"])}


MUTATIONS: dict[str, dict[str, Any]] = {
    "writeFile": {"path": "swap/f", "content": "evil\n"},
    "writeFile new": {"path": "swap/new", "content": "evil\n"},
    "writeFile append": {"path": "swap/f", "content": "evil\n", "mode": "append"},
    "modifyFile": {"path": "swap/f", "operations": [{"type": "insert", "afterLine": 0, "newContent": "evil"}]},
    "deleteFile": {"path": "swap/g"},
    "createDirectory": {"path": "swap/folder/deep"},
    "moveFile": {"source": "plain", "destination": "swap/new", "overwrite": True},
    "moveFile out": {"source": "swap/g", "destination": "taken", "overwrite": True},
    "copyFile out": {"source": "swap/f", "destination": "taken", "overwrite": True},
}


@pytest.mark.soak
@pytest.mark.parametrize("case", MUTATIONS)
def test_changes(attacked: Any, case: str) -> None:
    """The fixture compares what is outside afterwards."""

    def change() -> object:
        (attacked.root / "plain").write_bytes(b"plain\n")
        os.close(os.open("g", os.O_CREAT, dir_fd=attacked.inside))  # deleted or moved by the try before
        return attacked.call(case.split()[0], **MUTATIONS[case])

    attempts(TRIES, change)
    taken = attacked.root / "taken"
    assert not taken.exists() or taken.read_bytes() in (*INSIDE.values(), b"")


@pytest.mark.soak
def test_explore(attacked: Any) -> None:
    def explore() -> Any:
        return attacked.exploreFiles(path=".", recursive=True, returnMetadata=True, excludePatterns=[])

    wanted = {"swap", "swap/f", "swap/g", "evil", "evil/f", "evil/g"}
    names: set[str] = set()
    for _ in range(PATIENCE):
        answers = attempts(TRIES, explore, starts_in_it=False)
        files = [file for answer in answers for file in answer["files"]]
        assert {file["metadata"]["size"] for file in files if "/" in file["path"]} <= {len(INSIDE["f"])}
        names |= {file["path"] for file in files}
        if names >= wanted:
            break
    assert names == wanted
    below = attempts(TRIES, lambda: attacked.exploreFiles(path="swap"))
    assert {file["path"].partition("/")[2] for answer in below for file in answer["files"]} == set(INSIDE)


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["literal", "regex"])
@pytest.mark.parametrize("path", [".", "swap"])
def test_search(attacked: Any, kind: str, path: str) -> None:
    """What is outside is never found and never counted; what is inside is found at least now and then."""
    query = "side" if kind == "literal" else "s[i]de"
    matches: list[Any] = []
    for _ in range(PATIENCE):  # on a busy machine the folder may be the wrong one at nearly every look
        for answer in attempts(
            TRIES // 4,
            lambda: attacked.searchFiles(paths=[path], query=query, type=kind),
            starts_in_it=path != ".",
        ):
            assert answer["totalMatches"] <= 2 * len(INSIDE)
            matches += answer["matches"]
        if matches:
            break
    assert {match["matchText"] for match in matches} == {"inside"}
