"""The line at the cursor, the history and the help of operations, without a kernel."""

from __future__ import annotations

import pytest

from wap_kernel.notebook.kernel import operation_help
from wap_kernel.notebook.kernel.cell_position import line_at, parse_text_cell, word_at
from wap_kernel.notebook.kernel.history import History, encode_entries


@pytest.mark.parametrize(
    ("marked", "start", "text"),
    [
        ("|", 0, ""),
        ("ls|", 0, "ls"),
        ("ls\nre|ad a", 3, "read a"),
        ("ls\n|\nread", 3, ""),
        ("sh a \\\n b|\nls", 0, "sh a    b"),
        ("sh| a \\\n b \\\n c\nls", 0, "sh a    b    c"),
        ("ls\nsh a \\|", 3, "sh a \\"),
        ("%wap re|", 0, "     re"),
        ("ls\n  %%wap write a|", 3, "        write a"),
        ("%wapp re|", 0, "%wapp re"),
        ("%wap|", 0, "    "),
    ],
)
def test_a_row_is_a_line_with_all_that_continues_it(marked: str, start: int, text: str) -> None:
    assert line_at(marked.replace("|", ""), marked.index("|")) == (start, text)


def test_a_word_reaches_to_both_sides_of_the_cursor() -> None:
    assert word_at("- type: createFile", 12) == "createFile"
    assert word_at("a b", 1) == "a"
    assert word_at("", 0) == ""


def test_a_cell_with_a_text_is_told_from_lines() -> None:
    batch = parse_text_cell("# mine\n- type: shell")
    assert batch is not None and (batch.command.name, batch.first_line) == ("run", 2)
    assert parse_text_cell("ls\nread a") is None
    magic = parse_text_cell("%%wap --atomic\r\n- type: shell\r\n")
    assert magic is not None and (magic.options.atomic, magic.first_line) == (True, 2)
    assert parse_text_cell("raed") is None


def test_history() -> None:
    history = History()
    for number, source in enumerate(["ls", "read a", "ls", "read b"], 1):
        history.add(number, source, None)
    assert [entry.number for entry in history.tail(2)] == [3, 4]
    assert history.tail(0) == []
    assert [entry.number for entry in history.range(0, 2, 4)] == [2, 3]
    assert [entry.number for entry in history.range(1, None, None)] == [1, 2, 3, 4]
    assert history.range(-1, 1, 9) == []
    assert [entry.source for entry in history.search("read*", 1, unique=False)] == ["read b"]
    assert [entry.number for entry in history.search("ls", None, unique=True)] == [3]
    assert encode_entries(history.tail(1), output=True) == [(1, 4, ("read b", None))]


def test_every_operation_is_described() -> None:
    assert set(operation_help.names()) == set(operation_help._models())
    for name in operation_help.names():
        assert operation_help.describe_operation(name).startswith(f"{name}: ")
    assert "encoding" in operation_help.describe_operation("createFile")
