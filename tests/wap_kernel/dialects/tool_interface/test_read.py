"""read, where the spec leaves something open: limits, pages, endings, what is not text."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.tool_interface import Interface, opened


@pytest.fixture
def tools(tmp_path: Path) -> Iterator[Interface]:
    with opened(tmp_path) as tools:
        yield tools


def test_2000_lines_of_2000_characters_without_a_limit(tools: Interface) -> None:
    tools.file("long.txt", "x" * 3000 + "\n" + "".join(f"{number}\n" for number in range(2, 2501)))
    answer = tools("read", file_path="long.txt")
    lines = answer["content"].split("\n")
    assert lines[0] == f"1: {'x' * 2000}... [1000 more]" and lines[-1] == "2000: 2000" and len(lines) == 2000
    assert answer["truncated"] is True and answer["total_lines"] == 2500
    assert answer["note"] == (
        "Lines 1 to 2000 of 2500. Go on with offset 2001. "
        "Lines over 2000 characters are cut. With a limit they are whole."
    )
    rest = tools("read", file_path="long.txt", offset=2001)
    assert rest["content"].endswith("2500: 2500") and rest["truncated"] is False and "note" not in rest
    assert tools("read", file_path="long.txt", limit=1)["content"] == f"1: {'x' * 3000}"


def test_a_line_that_no_answer_can_hold(tools: Interface) -> None:
    tools.file("one.txt", "x" * (2 * 1024 * 1024) + "\nnext\n")
    answer = tools("read", file_path="one.txt", limit=5)
    assert len(answer["content"]) == 1024 * 1024 + 3
    assert answer["note"] == ("Lines 1 to 1 of 2. Go on with offset 2. The last line is too long to be shown whole.")


@pytest.mark.parametrize(
    ("data", "content", "lines"),
    [
        (b"", "", 0),
        (b"\n", "1: ", 1),
        (b"a\r\nb", "1: a\r\n2: b", 2),
        (b"\xef\xbb\xbfa\n", "1: a", 1),
        (b"a\n\n", "1: a\n2: ", 2),
        ("a\u2028b\x0cc\n".encode(), "1: a\u2028b\x0cc", 1),
    ],
)
def test_lines_are_ended_by_newlines_only(tools: Interface, data: bytes, content: str, lines: int) -> None:
    tools.file("a", data)
    answer = tools("read", file_path="a")
    assert (answer["content"], answer["total_lines"], answer["file_size"]) == (content, lines, len(data))


def test_what_is_not_utf8_is_shown_and_said(tools: Interface) -> None:
    tools.file("latin.txt", "größe".encode("latin-1"))
    answer = tools("read", file_path="latin.txt")
    assert (answer["is_lossy"], answer["is_binary"]) == (True, False) and answer["content"].startswith("1: gr")


def test_past_the_end(tools: Interface) -> None:
    tools.file("a", "x\n")
    error = tools.refuse("read", file_path="a", offset=7)
    assert error.text == "offset 7 is past the end: the file has 1 lines." and error.details["total_lines"] == 1


def test_a_folder_page_by_page(tools: Interface) -> None:
    for name in ("0", "1", "2/x", "3", "4"):
        tools.file(f"f/{name}")
    answer = tools("read", file_path="f", limit=2)
    assert (answer["content"], answer["total_lines"], answer["truncated"]) == ("0\n1", 5, True)
    assert answer["note"] == "Entries 1 to 2 of 5. Go on with offset 3."
    answer = tools("read", file_path="f", offset=3, limit=2)
    assert (answer["content"], answer["note"]) == ("2/\n3", "Entries 3 to 4 of 5. Go on with offset 5.")
    answer = tools("read", file_path="f", offset=5)
    assert (answer["content"], answer["truncated"], answer["total_lines"]) == ("4", False, 5)
    assert "note" not in answer
    assert tools.refuse("read", file_path="f", offset=6).details == {"total_entries": 5}
    tools.root.joinpath("empty").mkdir()
    assert tools("read", file_path="empty")["content"] == ""


def test_a_folder_of_more_entries_than_one_answer_shows(tools: Interface) -> None:
    names = [f"{number:04}" for number in range(2100)]
    tools.file("many/0000")
    for name in names:
        tools.root.joinpath("many", name).touch()
    answer = tools("read", file_path="many")
    assert answer["content"].split("\n") == names[:2000]
    assert tools("read", file_path="many", offset=2001)["content"].split("\n") == names[2000:]
