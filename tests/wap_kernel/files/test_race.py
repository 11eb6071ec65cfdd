"""The rename race: another process swaps a folder for a link to outside while every tool works in it.

"realpath, then open" loses this race a few times in a thousand. Here: no effect and no content from outside, ever.
"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from wap_kernel.errors import WapError
from wap_kernel.files import openat2
from wap_kernel.files.root import Root

SOAK = bool(os.environ.get("WAP_SOAK"))
READ_TRIES = 10_000
TRIES = 10_000 if SOAK else 500

SWAPPER = """
    import ctypes, os, sys
    AT_FDCWD, RENAME_EXCHANGE = -100, 2
    libc = ctypes.CDLL(None, use_errno=True)
    one, other = (os.fsencode(path) for path in sys.argv[1:])
    print("ready", flush=True)
    while os.getppid() == int(os.environ["PARENT"]):
        for _ in range(1000):
            libc.renameat2(AT_FDCWD, one, AT_FDCWD, other, RENAME_EXCHANGE)
"""

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
    swapper = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(SWAPPER), str(tools.root / "swap"), str(tools.root / "evil")],
        stdout=subprocess.PIPE,
        env={**os.environ, "PARENT": str(os.getpid())},
    )
    assert swapper.stdout is not None
    assert swapper.stdout.readline() == b"ready\n"
    yield tools
    swapper.kill()
    swapper.wait()
    swapper.stdout.close()
    assert {path.name: path.read_bytes() for path in tools.outside.iterdir()} == OUTSIDE


def attempts(count: int, act: Callable[[], object]) -> tuple[list[Any], int]:
    """The answers, and how many tries were refused."""
    answers, refused = [], 0
    for _ in range(count):
        try:
            answers.append(act())
        except (WapError, OSError):
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


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["literal", "regex"])
def test_search(attacked: Any, kind: str) -> None:
    for paths in (["."], ["swap"]):
        answers, _ = attempts(
            TRIES // 2, lambda paths=paths: attacked.searchFiles(paths=paths, query="side", type=kind)
        )
        texts = {match["matchText"] for answer in answers for match in answer["matches"]}
        assert texts <= {"inside"}
        assert {answer["totalMatches"] for answer in answers} <= {0, 1, 2}
