"""Parse the lines that people write, and explain their mistakes."""

from __future__ import annotations

from typing import Any

import pytest

from wap_kernel.model.errors import InvalidArgument
from wap_kernel.notebook.language import COMMANDS, aliases, list_operations, parse, parse_cell, parse_script, usage


@pytest.mark.parametrize(
    ("text", "name", "options"),
    [
        ("", "status", {"quiet": False, "raises": False, "to": None}),
        ("--to here", "status", {"to": "here"}),
        ("ls", "ls", {"path": ".", "recursive": False, "depth": None}),
        ("ls 'my folder' -r", "ls", {"path": "my folder", "recursive": True}),
        ("read a.py", "read", {"path": "a.py", "window": None, "lines": None}),
        ("read a.py 10:20", "read", {"path": "a.py", "window": (10, 20)}),
        ("read a.py 10:", "read", {"window": (10, None)}),
        ("read a.py :20", "read", {"window": (1, 20)}),
        ("read a.py 7", "read", {"window": (7, 7)}),
        ("read a.py --to x --lines 3:4", "read", {"lines": (3, 4), "to": "x"}),
        ("read a.py --to x 3:4", "read", {"window": (3, 4), "to": "x"}),
        (
            "search 'a b' src -ie -g '*.py'",
            "search",
            {"pattern": "a b", "path": "src", "regex": True, "glob": ["*.py"]},
        ),
        ("write a.txt 'two words' -y", "write", {"path": "a.txt", "content": "two words", "yes": True}),
        ("write a.txt ''", "write", {"content": ""}),
        ("edit a.py 'x = 1' ''", "edit", {"old": "x = 1", "new": ""}),
        ("edit -y -- a.py -x --y", "edit", {"old": "-x", "new": "--y", "yes": True}),
        ("sh ls", "sh", {"command": "ls", "timeout": None, "cwd": None, "wait": 0.0}),
        ("sh -t 60 pytest -q | tail", "sh", {"command": "pytest -q | tail", "timeout": 60.0}),
        ("sh --timeout=60 -yC 'a b' ls", "sh", {"command": "ls", "timeout": 60.0, "yes": True, "cwd": "a b"}),
        ("sh echo 'a  \"b\"'  \\| $x {y} -t 3", "sh", {"command": "echo 'a  \"b\"'  \\| $x {y} -t 3", "timeout": None}),
        ("sh echo 'never closed", "sh", {"command": "echo 'never closed"}),
        ("sh -- -odd", "sh", {"command": "-odd"}),
        ("git -C sub log --oneline -- 'a b'", "git", {"command": "-C sub log --oneline -- 'a b'", "to": None}),
        ("git", "git", {"command": None}),
        ("runs -s completed -n 3", "runs", {"status": "completed", "limit": 3}),
        ("show", "show", {"run": "last"}),
        ("approve --always", "approve", {"run": None, "always": True}),
        ("deny run_1 not today", "deny", {"run": "run_1", "reason": ["not", "today"]}),
        ("revert run_1 -f", "revert", {"run": "run_1", "force": True}),
        ("help sh", "help", {"about": "sh"}),
        ("--help", "help", {"about": None}),
        ("sh --help", "help", {"about": "sh"}),
        ("git -h", "help", {"about": "git"}),
        ("read --help", "help", {"about": "read"}),
    ],
)
def test_a_line(text: str, name: str, options: dict[str, Any]) -> None:
    line = parse(text)
    assert line.command.name == name
    assert {option: getattr(line.options, option) for option in options} == options


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("red a.py", "There is no sub-command 'red'; did you mean read?"),
        ("frobnicate", "There is no sub-command 'frobnicate'."),
        ("read a --lins 3", "read: there is no option --lins; did you mean --lines?"),
        ("sh --timeot 3 ls", "sh: there is no option --timeot; did you mean --timeout?"),
        ("ls a b", "ls: unexpected word 'b'"),
        ("read", "read: the following arguments are required: PATH."),
        ("read a 20:10", "the last follows the first, not '20:10'"),
        ("read a 0:3", "counted from 1"),
        ("read a x", "written as 10:20"),
        ("read a :", "written as 10:20"),
        ("read a " + "9" * 5000, "written as 10:20"),
        ("sh -t soon ls", "'soon' is not a number of seconds"),
        ("sh -t 0.1 ls", "a command is given 1 to 3,600 seconds, not 0.1"),
        ("sh -t 99999 ls", "a command is given 1 to 3,600 seconds, not 99999"),
        ("sh -w 99999 ls", "a day, 86,400 seconds, is the longest, not 99999"),
        ("sh -w -1 ls", "'-1' is not a number of seconds"),
        ("--atomic", "--atomic is for a batch, and there is none."),
        ("sh -t nan ls", "'nan' is not a number of seconds"),
        ("sh -w inf ls", "'inf' is not a number of seconds"),
        ("runs -s done", "invalid choice: 'done'"),
        ("runs -n 0", "from 1 to 1000"),
        ("ls --to a.b", "'a.b' is not a name"),
        ("ls --to class", "'class' is not a name"),
        ("write a 'b", "no closing quotation"),
        ("write a", "write: the text is missing."),
        ("sh", "sh: the text is missing."),
        ("sh -y", "sh: the text is missing."),
        ("run", "run: the text is missing."),
        ("read " + "a" * 1_000_000, "The line is too long: 1000000 characters"),
    ],
)
def test_a_mistake(text: str, told: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InvalidArgument) as caught:
        parse(text)
    assert told in caught.value.message
    assert "?." not in caught.value.text
    assert caught.value.hint
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("text", "told", "hint"),
    [
        ("cat notes.txt", "did you mean read?", "Write: %wap read notes.txt"),
        ("cat -n notes.txt", "did you mean read?", "Write: %wap read"),
        ("cp a.txt 'b c.txt'", "did you mean sh cp?", "Write: %wap sh cp a.txt 'b c.txt'"),
        ("mv -n a b", "did you mean sh mv?", "Write: %wap sh mv -n a b"),
        ("undo last", "did you mean revert?", "Write: %wap revert last"),
        ("undo", "did you mean revert?", "Write: %wap revert"),
        ("grep TODO src", "did you mean search?", "Write: %wap search TODO src"),
        ("tree", "did you mean ls -r?", "Write: %wap ls -r"),
        ("!make test", "did you mean sh?", "Write: %wap sh make test"),
        ("cd src", "did you mean sh -C DIR?", "Paths begin at the workspace"),
        ("%load_ext wap_kernel", "There is no sub-command '%load_ext'.", "This kernel has no magics"),
    ],
)
def test_a_habit_from_elsewhere(text: str, told: str, hint: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        parse(text)
    assert told in caught.value.message
    assert hint in (caught.value.hint or "")


def test_what_a_habit_is_called_here_is_there() -> None:
    for word, name in aliases._NAMES.items():
        assert name.split()[0] in COMMANDS
        assert word not in COMMANDS, "or nobody would ever be told"


def test_every_sub_command_has_help_with_an_example_that_can_be_read() -> None:
    contents = usage("")
    for name, command in COMMANDS.items():
        assert not name or name in usage(name)
        assert command.summary.rstrip(".") in contents or not name
        if name and not (command.body and command.example == "run --dry-run"):
            assert parse(command.example).command.name == name


# -- cells


def test_options_alone_are_those_of_run() -> None:
    line = parse_cell(" --yes --atomic", "- {}")
    assert (line.command.name, line.options.yes, line.options.atomic, line.body, line.first_line) == (
        "run",
        True,
        True,
        "- {}",
        2,
    )
    assert parse_cell("", "[]").command.name == "run"
    assert parse_cell("--help", "[]").options.about == "run"


def test_the_text_of_a_cell() -> None:
    assert list_operations(parse_cell("write a.txt", "one\ntwo\n")) == [
        {"type": "createFile", "path": "a.txt", "content": "one\ntwo\n", "overwrite": True}
    ]
    assert list_operations(parse_cell("sh -t 1 -C src", "cd x\nmake\n")) == [
        {"type": "shell", "command": "cd x\nmake", "cwd": "src", "timeout": 1000}
    ]


@pytest.mark.parametrize(
    ("head", "told"),
    [
        ("ls", "ls takes no text below it"),
        ("write a.txt text", "a text in the line and another below"),
        ("sh ls", "a text in the line and another below"),
        ("--yse", "there is no option --yse; did you mean --yes?"),
    ],
)
def test_a_cell_that_is_none(head: str, told: str) -> None:
    with pytest.raises(InvalidArgument, match=told.replace("?", r"\?")):
        parse_cell(head, "text")


# -- what a line would do


@pytest.mark.parametrize(
    ("text", "done"),
    [
        ("ls", []),
        ("write a b --new", [{"type": "createFile", "path": "a", "content": "b"}]),
        ("edit a b c", [{"type": "editFile", "path": "a", "edits": [{"oldContent": "b", "newContent": "c"}]}]),
        ("rm a", [{"type": "deleteFile", "path": "a"}]),
        ("sh -t 2 make", [{"type": "shell", "command": "make", "timeout": 2000}]),
        ("git log -1", [{"type": "shell", "command": "git log -1"}]),
        ("check sh -t 2 make", [{"type": "shell", "command": "make", "timeout": 2000}]),
        ("check write .env", [{"type": "createFile", "path": ".env", "content": "", "overwrite": True}]),
        ("check read .env", [{"type": "readFile", "path": ".env"}]),
        ("check ls -la", [{"type": "shell", "command": "ls -la"}]),
    ],
)
def test_operations(text: str, done: list[dict[str, Any]]) -> None:
    assert list_operations(parse(text)) == done


def test_a_check_of_a_line_that_is_wrong() -> None:
    with pytest.raises(InvalidArgument, match="rm: there is no option -rf"):
        list_operations(parse("check rm -rf /"))


@pytest.mark.parametrize("line", ["rm -rf src", "ls -la", "check rm -rf 'a b'"])
def test_the_options_of_a_program_are_for_the_program(line: str) -> None:
    with pytest.raises(InvalidArgument, match="there is no option") as refused:
        list_operations(parse(line))
    instead = line.replace("check rm", "check sh rm") if line.startswith("check") else f"sh {line}"
    assert refused.value.hint == f"Write it as a command: %wap {instead}"
    assert parse(instead).options.command == instead.partition(" ")[2]
    for other in ("rm", "ls --recursve", "ls a b", "read -x a"):
        with pytest.raises(InvalidArgument) as refused:
            parse(other)
        assert "as a command" not in str(refused.value.hint)


# -- the cells of the `wap` kernel


def test_a_script_of_lines() -> None:
    lines = parse_script("# look\nls src\n\nsh make \\\n  all\n  read a.py 3\n")
    assert [line.command.name for line in lines] == ["ls", "sh", "read"]
    assert lines[1].options.command == "make    all"
    assert parse_script("") == parse_script("# nothing\n\n") == []


@pytest.mark.parametrize(
    ("text", "name", "body", "first_line"),
    [
        ('[\n{"type": "message"}]', "run", '[\n{"type": "message"}]\n', 1),
        ("# why\n\n- type: message\n", "run", "- type: message\n", 3),
        ('{"operations": []}', "run", '{"operations": []}\n', 1),
        ("protocolVersion: 1.0\noperations: []", "run", "protocolVersion: 1.0\noperations: []\n", 1),
        ("---\n- type: message", "run", "---\n- type: message\n", 1),
        ("run --dry-run\n- type: message", "run", "- type: message\n", 2),
        ("write a.txt\n# a title\n\nls\n", "write", "# a title\n\nls\n", 2),
        ("write \\\n a.txt\nls", "write", "ls\n", 3),
        ("sh -t 3\nmake\nmake test", "sh", "make\nmake test\n", 2),
        ("--atomic\n- type: message", "run", "- type: message\n", 2),
        ("# why\n-n -y\n\n# what\n[{}]", "run", "\n# what\n[{}]\n", 3),
    ],
)
def test_a_script_with_a_text(text: str, name: str, body: str, first_line: int) -> None:
    (line,) = parse_script(text)
    assert (line.command.name, line.body, line.first_line) == (name, body, first_line)


def test_a_mistake_in_a_script_has_its_line() -> None:
    for text, line in (("ls\n\nraed a", 3), ("raed a\nls", 1), ("ls\nsh \\\n -t x ls", 2)):
        with pytest.raises(InvalidArgument) as refused:
            parse_script(text)
        assert refused.value.details["line"] == line
    assert [line.row for line in parse_script("ls\n\nread a")] == [1, 3]
    with pytest.raises(InvalidArgument) as alone:
        parse_script("raed a")
    assert "line" not in alone.value.details, "there is only one"


@pytest.mark.parametrize("text", ["write a.txt", "write a.txt\n\n", "ls\nwrite a.txt\nhello", "sh"])
def test_a_script_whose_text_is_missing(text: str) -> None:
    with pytest.raises(InvalidArgument, match="the text is missing"):
        parse_script(text)


# -- cells as other editors and other notebooks have them


@pytest.mark.parametrize(
    "cell",
    [
        "write a.txt\none\ntwo\n",
        "%wap write a.txt\none\ntwo\n",
        "%%wap write a.txt\none\ntwo\n",
        "  %%wap  write a.txt\none\ntwo\n",
        "# a note\n%%wap write \\\n a.txt\none\ntwo\n",
    ],
)
@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_a_text_is_the_same_however_its_lines_end_and_with_its_magic(cell: str, ending: str) -> None:
    (line,) = parse_script(cell.replace("\n", ending))
    assert list_operations(line) == [
        {"type": "createFile", "path": "a.txt", "content": "one\ntwo\n", "overwrite": True}
    ]
    assert line.first_line == cell.count("\n") - 1


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_lines_with_and_without_their_magic(ending: str) -> None:
    cell = "%wap ls src\nread a.py \\\n 1:2\n%wap\n  %wap sh echo %wap\n".replace("\n", ending)
    assert [line.command.name for line in parse_script(cell)] == ["ls", "read", "status", "sh"]
    assert parse_script(cell)[1].options.window == (1, 2)
    assert parse_script(cell)[3].options.command == "echo %wap"


@pytest.mark.parametrize("head", ["%%wap", "%%wap --atomic", "%%wap run --atomic"])
def test_a_batch_with_its_magic(head: str) -> None:
    (line,) = parse_script(f"{head}\r\n- type: message\r\n  content: x\r\n")
    assert (line.command.name, line.options.atomic, line.first_line) == ("run", "atomic" in head, 2)
    assert line.body == "- type: message\n  content: x\n"


def test_a_cell_of_ipython_with_other_line_ends() -> None:
    assert list_operations(parse_cell("sh \r", "make\r\nmake test\r\n")) == [
        {"type": "shell", "command": "make\nmake test"}
    ]


def test_what_only_looks_like_the_magic_is_not() -> None:
    with pytest.raises(InvalidArgument, match="'%wapp'"):
        parse_script("%wapp ls")


@pytest.mark.parametrize(
    ("text", "instead"),
    [
        ("--yes sh true", "sh --yes true"),
        ("-y sh grep 'a  b' | wc", "sh -y grep 'a  b' | wc"),
        ("-t 60 -y sh make sh", "sh -t 60 -y make sh"),
        ("-n write a.txt hello", "write -n a.txt hello"),
        ("--force revert last", "revert --force last"),
        ("--context 3 search x", "search --context 3 x"),
    ],
)
def test_options_stand_after_the_sub_command(text: str, instead: str) -> None:
    with pytest.raises(InvalidArgument, match="the options must stand after the sub-command") as refused:
        parse(text)
    assert refused.value.hint == f"Write: %wap {instead}"
    parse(instead)


def test_options_stand_after_the_sub_command_at_the_head_of_a_cell_too() -> None:
    with pytest.raises(InvalidArgument, match="sh: the options must stand after the sub-command") as refused:
        parse_cell("--yes sh", "make\n")
    assert refused.value.hint == "Write: %%wap sh --yes"
    assert parse_cell("sh --yes", "make\n").options.yes
    assert parse("--to runs").options.to == "runs", "a name for the overview"
    with pytest.raises(InvalidArgument, match="there is no option --yess"):
        parse("--yess")
