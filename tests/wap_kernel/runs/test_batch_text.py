"""Batches as people write them, and the errors of their mistakes."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from wap_kernel.model.errors import InvalidArgument
from wap_kernel.runs import batch_text

OPERATION = {"type": "message", "content": "hello"}
MESSAGE = {"protocolVersion": "1.0", "operations": [OPERATION]}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.json", '{"protocolVersion": "1.0", "operations": [{"type": "message", "content": "hello"}]}'),
        ("a.json", '[{"type": "message", "content": "hello"}]'),
        ("a.yaml", "[{type: message, content: hello}]"),
        ("a.yml", "- type: message\n  content: hello\n"),
        ("a", "- type: message\n  content: hello\n"),
        ("a.yaml", "protocolVersion: 1.0\noperations:\n- {type: message, content: hello}\n"),
        ("a.yaml", 'protocolVersion: "1.0"\noperations:\n- {type: message, content: hello}\n'),
    ],
)
def test_every_form(name: str, text: str) -> None:
    assert batch_text.parse_batch(text, name) == MESSAGE


def test_a_date_in_yaml_stays_text() -> None:
    (operation,) = batch_text.parse_batch("- {type: message, content: 2024-01-15}", "a.yaml")["operations"]
    assert operation["content"] == "2024-01-15"


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        (
            "a.json",
            '[{"type": "message",\n "content" "x"}]',
            "a.json is not valid JSON: .*line 2, column",
        ),
        ("a.yaml", "- type: message\n  content: [", "a.yaml is not valid YAML: .*line 2, column"),
        ("a.yaml", "- &a [x]\n- *a\n", "an alias is not allowed, line 2, column 3"),
        ("a.yaml", "- !!python/object/apply:os.system [id]\n", "could not determine a constructor"),
        ("a.yaml", "- !!binary aGk=\n", "holds a value that JSON does not have"),
        ("a.json", "[" * 100_000, "nested too deeply"),
        ("a.yaml", "- " * 3_000, "nested too deeply"),
        ("a.json", '{"operations": [\n\n', "line 1, column 17"),
        ("a.yaml", "- {type: shell,\n  command: ls\n\n", "line 2, column 14"),
        ("a.json", '{"type": "message"}', "no batch of operations"),
        ("a.yaml", "", "no batch of operations"),
        ("a.yaml", "just words", "no batch of operations"),
    ],
)
def test_a_mistake_is_told_with_its_place(name: str, text: str, told: str) -> None:
    with pytest.raises(InvalidArgument, match=told):
        batch_text.parse_batch(text, name)


@pytest.mark.parametrize("name", ["a.json", "a.yaml"])
def test_a_variable_without_quotes_is_told_what_it_needs(name: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        batch_text.parse_batch('[{"type": "message",\n  "content": {{text}}}]', name)
    assert refused.value.hint == 'Put quotes around it: "{{name}}".' and refused.value.details["line"] == 2


def test_operations_without_an_id_are_numbered_beside_those_that_have_one() -> None:
    assert batch_text.assign_ids([None, "op-1", None, "x", "op-3", None]) == [
        "op-1_",
        "op-1",
        "op-3_",
        "x",
        "op-3",
        "op-6",
    ]


def test_without_pyyaml_json_still_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    assert batch_text.parse_batch("[]", "a.json")["operations"] == []
    with pytest.raises(InvalidArgument, match="pip install PyYAML"):
        _raise_with_hint("- type: message")


def _raise_with_hint(text: str) -> None:
    try:
        batch_text.parse_batch(text, "a.yaml")
    except InvalidArgument as error:
        raise InvalidArgument(error.text) from None


def test_files_and_standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a.json"
    file.write_bytes(b'\xef\xbb\xbf[{"type": "message", "content": "hello"}]')
    assert batch_text.load_batch(str(file)) == MESSAGE
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"[{type: message, content: hello}]")))
    with pytest.raises(InvalidArgument, match="standard input is not valid JSON"):
        batch_text.load_batch("-")
    with pytest.raises(InvalidArgument, match="cannot be read: No such file"):
        batch_text.load_batch(str(tmp_path / "missing"))
    file.write_bytes(b"[\xff]")
    with pytest.raises(InvalidArgument, match="not UTF-8: byte 1"):
        batch_text.load_batch(str(file))
