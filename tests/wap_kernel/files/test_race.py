"""The rename race: another process swaps a folder for a link to outside while every tool works in it.

"realpath, then open" loses this race a few times in a thousand. Here: no effect and no content from outside, ever.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.wap_kernel.files.swapping import swapping
from wap_kernel.errors import Code, WapError
from wap_kernel.files import openat2
from wap_kernel.files.root import Root

SOAK = bool(os.environ.get("WAP_SOAK"))
READ_TRIES = 10_000
TRIES = 10_000 if SOAK else 500

OUTSIDE = {"f": b"outside\n", "g": b"outside\n"}
INSIDE = b"inside\n"


@pytest.fixture(params=["openat2", "walk"])
def attacked(
    request: pytest.FixtureRequest, tmp_path: Path, make_tools: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Any]:
    """A workspace in which `swap` is a folder at one moment and a link to outside at the next."""
    if not sys.platform.startswith("linux"):
        pytest.skip("RENAME_EXCHANGE is Linux's")
    if request.param == "walk":
        monkeypatch.setattr(openat2, "load", lambda: None)
    tools = make_tools()
    assert (tools.workspace._files._open_beneath is None) == (request.param == "walk")
    for name, content in OUTSIDE.items():
        (tools.outside / name).write_bytes(content)
    (tools.root / "swap").mkdir()
    (tools.root / "swap" / "f").write_bytes(INSIDE)
    (tools.root / "evil").symlink_to(tools.outside)
    with swapping(tools.root / "swap", tools.root / "evil"):
        yield tools
    assert {path.name: path.read_bytes() for path in tools.outside.iterdir()} == OUTSIDE


def attempts(count: int, act: Callable[[], object]) -> tuple[list[Any], int]:
    """The answers, and how many tries were refused. A bug is not a refusal."""
    answers, refused = [], 0
    for _ in range(count):
        try:
            answers.append(act())
        except WapError as error:
            assert error.code is not Code.INTERNAL_ERROR
            refused += 1
        except OSError:
            refused += 1
    return answers, refused


@pytest.mark.soak
def test_read_and_stat(attacked: Any) -> None:
    root: Root = attacked.workspace._files
    outside_inode = (attacked.outside / "f").stat().st_ino

    def read() -> bytes:
        with root.open("swap/f") as file:
            assert os.fstat(file.fd).st_ino != outside_inode
            return file.read()

    answers, refused = attempts(READ_TRIES, read)
    assert set(answers) == {INSIDE}
    assert refused, "the attacker never got in between, so this shows nothing"
    sizes, refused = attempts(READ_TRIES, lambda: root.stat("swap/f").size)
    assert set(sizes) == {len(INSIDE)}
    assert refused


MUTATIONS: dict[str, dict[str, Any]] = {
    "writeFile": {"path": "swap/f", "content": "evil\n"},
    "writeFile new": {"path": "swap/new", "content": "evil\n"},
    "writeFile append": {"path": "swap/f", "content": "evil\n", "mode": "append"},
    "modifyFile": {"path": "swap/f", "operations": [{"type": "insert", "afterLine": 0, "newContent": "evil"}]},
    "deleteFile": {"path": "swap/g"},
    "createDirectory": {"path": "swap/folder/deep"},
}


@pytest.mark.soak
@pytest.mark.parametrize("case", MUTATIONS)
def test_changes(attacked: Any, case: str) -> None:
    tool = case.split()[0]
    # The fixture compares what is outside afterwards.
    _, refused = attempts(TRIES, lambda: attacked.call(tool, **MUTATIONS[case]))
    assert refused, "the attacker never got in between, so this shows nothing"


@pytest.mark.soak
def test_explore(attacked: Any) -> None:
    (attacked.outside / "g").chmod(0o600)
    answers, _ = attempts(
        TRIES, lambda: attacked.exploreFiles(path=".", recursive=True, returnMetadata=True, excludePatterns=[])
    )
    listed = {file["path"] for answer in answers for file in answer["files"]}
    assert listed <= {"swap", "swap/f", "evil", "evil/f"}
    assert len(listed) == 4


PATIENCE = 50


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["literal", "regex"])
@pytest.mark.parametrize("path", [".", "swap"])
def test_search(attacked: Any, kind: str, path: str) -> None:
    """What is only outside is never found and never counted; what is inside is found at least now and then."""

    def totals(word: str) -> list[int]:
        query = word if kind == "literal" else f"{word[:-1]}[{word[-1]}]"
        answers, _ = attempts(TRIES // 4, lambda: attacked.searchFiles(paths=[path], query=query, type=kind))
        texts = {match["matchText"] for answer in answers for match in answer["matches"]}
        assert texts <= {"inside"}
        return [answer["totalMatches"] for answer in answers]

    outside, inside = totals("outside"), totals("inside")
    for _ in range(PATIENCE):  # on a busy machine the folder may be the wrong one at nearly every look
        if any(inside):
            break
        inside += totals("inside")
    assert outside and set(outside) == {0}
    assert any(inside) and set(inside) <= {0, 1, 2}
