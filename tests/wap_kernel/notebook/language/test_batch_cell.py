"""A batch in a cell: its variables, and mistakes that are shown on their line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wap_kernel.model.errors import InvalidArgument
from wap_kernel.notebook.language import batch_cell, source_positions
from wap_kernel.runs import batch_text

YAML = """\
# what to do
- type: message
  content: hello
- type: createFile
  path: a.txt
  content: |
    one
    two
- {type: shell,
   command: ls}
"""
JSON = """\
{
\t"protocolVersion": "1.0",
\t"operations": [
\t\t{"type": "message", "content": "a } ] , \\" {"},
\t\t{
\t\t\t"type": "editFile", "path": "a",
\t\t\t"edits": [{"oldContent": "x",
\t\t\t\t"newContent": "y"}]
\t\t}
\t],
\t"atomic": true
}
"""


def refused(text: str, names: dict[str, object] | None = None, first_line: int = 2) -> InvalidArgument:
    with pytest.raises(InvalidArgument) as caught:
        batch_cell.parse_batch(text, names, first_line)
    return caught.value


# -- where things stand


def test_lines_of_yaml() -> None:
    assert source_positions.locate_lines(YAML) == {
        (): 2,
        ("operations", 0): 2,
        ("operations", 0, "type"): 2,
        ("operations", 0, "content"): 3,
        ("operations", 1): 4,
        ("operations", 1, "type"): 4,
        ("operations", 1, "path"): 5,
        ("operations", 1, "content"): 6,
        ("operations", 2): 9,
        ("operations", 2, "type"): 9,
        ("operations", 2, "command"): 10,
    }


def test_lines_of_json() -> None:
    found = source_positions.locate_lines(JSON)
    expected = {
        (): 1,
        ("protocolVersion",): 2,
        ("operations",): 3,
        ("operations", 0, "content"): 4,
        ("operations", 1): 5,
        ("operations", 1, "path"): 6,
        ("operations", 1, "edits", 0, "oldContent"): 7,
        ("operations", 1, "edits", 0, "newContent"): 8,
        ("atomic",): 11,
    }
    assert {path: found[path] for path in expected} == expected


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=20,
)


@given(st.lists(VALUES, max_size=5), st.sampled_from([None, 0, 2, "\t"]))
def test_every_part_of_json_has_the_line_on_which_it_begins(value: list[Any], indent: int | str | None) -> None:
    """With an indent, json writes one item a line, so the lines are those of a walk through it."""
    text = json.dumps(value, indent=indent)
    found = source_positions.locate_lines(text)
    expected: dict[tuple[str | int, ...], int] = {}
    line = 1

    def walk(part: Any, path: tuple[str | int, ...]) -> None:
        nonlocal line
        expected[path] = line
        items = (
            list(part.items()) if isinstance(part, dict) else list(enumerate(part)) if isinstance(part, list) else []
        )
        for name, inner in items:
            line += indent is not None
            walk(inner, (*path, name))
        line += indent is not None and bool(items)

    walk(value, ("operations",))
    expected[()] = expected.pop(("operations",))
    assert found == expected


def test_line_ends_of_unicode_are_not_those_of_an_editor() -> None:
    text = '- type: message\n  content: "a\u2028b\x85c"\n- type: nothing\n'
    assert source_positions.locate_lines(text)[("operations", 1)] == 3


# -- mistakes


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("- type: message\n", "line 2: operations[0].content: This field is required."),
        (YAML + "- type: shell\n", "line 12: operations[3].command: This field is required."),
        (
            YAML.replace("ls", "7"),
            "line 11: operations[2].command: The value should be text, and is 7. Put it in quotes.",
        ),
        (
            YAML.replace("ls", "yes"),
            "line 11: operations[2].command: The value should be text, and is true "
            "(so YAML reads yes, no, on and off). Put it in quotes.",
        ),
        (YAML.replace("ls", "[ls]"), "line 11: operations[2].command: The value should be text, and is a list."),
        (YAML.replace("ls", "ls, env: x"), "line 11: operations[2].env: The value should be a mapping, and is a text."),
        (YAML.replace("a.txt", "/a.txt"), "line 6: operations[1].path: Path must be relative"),
        (
            YAML.replace("content: |", "contnt: |"),
            "The batch has several mistakes.\n"
            "line 5: operations[1].content: This field is required.\n"
            "line 7: operations[1].contnt: Unknown field. Did you mean content?",
        ),
        ("- type: creatFile\n", "line 2: operations[0]: There is no type 'creatFile'. Did you mean createFile?"),
        ("- path: a\n", "line 2: operations[0]: The operation has no type. The type is one of message, createFile, "),
        ("- 3\n", "line 2: operations[0]: Input should be a valid dictionary"),
        (JSON.replace('"x"', "1"), "line 8: operations[1].edits[0].oldContent: The value should be text, and is 1."),
        (JSON.replace('"atomic"', '"atomc"'), "line 12: atomc: Unknown field. Did you mean atomic?"),
        (
            '[{"type": "shell", "command": "x",\n"env": {"a.b": 1}}]',
            "line 3: operations[0].env.a.b: The value should be text, and is 1.",
        ),
        ('{"operations": 3}', "line 2: operations: The value should be a list, and is 3."),
        ('[{"type": "shell",]', "The batch is not valid JSON: "),
        ("- type: x\n  a: [", "The batch is not valid YAML: "),
        ("words", "The batch is no batch of operations."),
        ("", "The batch is no batch of operations."),
    ],
)
def test_a_mistake_has_its_line_of_the_cell(text: str, told: str) -> None:
    error = refused(text)
    assert error.message.startswith(told)
    if told.startswith("line "):
        assert error.details["line"] == int(told.split(":")[0].removeprefix("line "))


def test_syntax_errors_count_from_the_top_of_the_cell() -> None:
    assert "line 4, column" in (error := refused('[\n{"type": "message"}\n{}]')).message
    assert error.details["line"] == 4
    assert "line 3, column" in refused("- a\nb: [").message


def test_many_mistakes_are_not_all_shown() -> None:
    error = refused("- {type: shell}\n" * 8)
    assert error.message.count("\n") == 6 and error.message.startswith("The batch has several mistakes.\nline 2: ")
    assert error.message.endswith("and 3 more")


# -- variables


def filled(value: Any, **names: object) -> Any:
    text = json.dumps([{"type": "message", "content": "x", "value": value}])
    return batch_cell.variables.fill_variables(batch_text.parse_batch(text, "a"), names)["operations"][0]["value"]


def test_a_value_that_is_a_variable_becomes_the_object() -> None:
    assert filled("{{x}}", x=[1, {"a": None}]) == [1, {"a": None}]
    assert filled("{{ x }}", x=3) == 3
    assert filled("{{x}}", x=(1, 2)) == [1, 2]
    assert filled(["{{x}}", {"{{x}}": "{{x}}"}], x="v") == ["v", {"{{x}}": "v"}]
    assert filled("{{größe}}", größe=1.5) == 1.5


def test_in_a_longer_text_stands_its_text() -> None:
    assert filled(" {{x}}", x=3) == " 3"
    assert filled("{{x}}\n", x="text") == "text\n", "as YAML ends a block"
    assert filled("{{x}} ", x=[1]) == "[1] "
    assert filled("{{a}} and {{ b }}.", a=1, b=Path("p/q")) == "1 and p/q."
    assert filled("{{a}}{{a}}", a="{{b}}") == "{{b}}{{b}}", "what is filled in is not read again"
    assert filled("a\n{{a}}\n", a="x") == "a\nx\n"


@pytest.mark.parametrize(
    "text", ["{{}}", "{ {a} }", "{{ 1 }}", "style={{color: 'red'}}", "{{a()}}", "{{a[0]}}", "{%a%}"]
)
def test_other_braces_are_left_alone(text: str) -> None:
    assert filled(text, a=1) == text


def test_an_object_is_a_copy() -> None:
    value = [1]
    found = filled("{{x}}", x=value)
    value.append(2)
    assert found == [1]


class Explosive:
    def __getattr__(self, name: str) -> Any:
        raise AssertionError("nothing is evaluated")


@pytest.mark.parametrize(
    ("value", "names", "told", "hint"),
    [
        ("{{pathh}}", {"path": 1, "_pathh": 1}, "there is no variable 'pathh'", "Did you mean path? --no-vars"),
        ("{{zzz}}", {"path": 1}, "there is no variable 'zzz'", "--no-vars leaves"),
        ("a {{os.environ}}", {"os": Explosive()}, "{{os.environ}} is not the name of a variable", "Bind the value"),
        ("{{x}}", {"x": {1, 2}}, "'x' is a set, which JSON cannot hold", "Convert it to text"),
        ("{{x}}", {"x": Path("a")}, "'x' is a PosixPath, which JSON cannot hold", "Convert it to text"),
        ("{{x}}", {"x": float("nan")}, "'x' is a float, which JSON cannot hold", "Convert it to text"),
    ],
)
def test_a_variable_that_cannot_be_had(value: str, names: dict[str, object], told: str, hint: str) -> None:
    text = f"- type: message\n- type: message\n  content: {json.dumps(value)}\n"
    error = refused(text, names)
    assert error.message == f"line 4: operations[1].content: {told}."
    assert hint in str(error.hint)
    assert error.details["line"] == 4


@pytest.mark.parametrize("depth", [100, 300, 480, 900])
def test_depth(depth: int) -> None:
    assert refused("[" * depth + "]" * depth, {}).message
    assert refused("- " + "[" * depth + "]" * depth, {}).message


def test_itself_in_itself() -> None:
    loop: list[Any] = []
    loop.append(loop)
    assert "is a list, which JSON cannot hold" in refused('["{{x}}"]', {"x": loop}).message


def test_variables_in_a_message() -> None:
    text = 'operations: "{{wanted}}"\natomic: "{{yes}}"\n'
    wanted = [{"type": "message", "content": "{{stays}}"}]
    made = batch_cell.parse_batch(text, {"wanted": wanted, "yes": True}, 2)
    assert made == {"operations": wanted, "atomic": True, "protocolVersion": "1.0"}
    error = refused(text, {"wanted": [{"type": "shell"}], "yes": True})
    assert error.message == "line 2: operations[0].command: This field is required."


def test_without_variables_braces_stay() -> None:
    made = batch_cell.parse_batch('[{"type": "message", "content": "{{x}}"}]', None, 2)
    assert made["operations"][0]["content"] == "{{x}}"


def test_yaml_takes_bare_braces_for_something_else_and_says_so() -> None:
    error = refused("- type: message\n  content: {{x}}\n", {"x": "y"})
    assert error.hint == 'Put quotes around it: "{{name}}".'
    assert error.details["line"] == 3


def test_what_only_the_server_refuses_has_its_line_too() -> None:
    told = InvalidArgument("no", problems=[{"field": "operations.1.createFile.path", "message": "Not here"}])
    assert (
        batch_cell.locate_problems(told, batch_text.parse_batch(YAML, "a"), YAML, 2).message
        == "line 6: operations[1].path: Not here"
    )
    plain = InvalidArgument("no")
    assert batch_cell.locate_problems(plain, {}, YAML, 2) is plain
    assert (
        batch_cell.describe_problem(told, [{"type": "message"}, {"type": "createFile", "path": "a"}]).message
        == "path: Not here"
    )
