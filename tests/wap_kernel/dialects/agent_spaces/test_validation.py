"""`validate_...` and `parse_...`, as `wap_kernel` offers them: no input breaks them, and what they accept stays so."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import wap_kernel
from tests.support.agent_spaces_examples import EVENTS, EVENTS_MESSAGE, OPERATIONS, OPERATIONS_MESSAGE
from wap_kernel.model.errors import InvalidArgument

NAMES = ("operation", "operations_message", "event", "events_message")
PAIRS: dict[str, tuple[Callable[[object], Any], Callable[[object], wap_kernel.Validation[Any]]]] = {
    name: (getattr(wap_kernel, f"parse_{name}"), getattr(wap_kernel, f"validate_{name}")) for name in NAMES
}
EXAMPLES = [
    *(("operation", one) for one in OPERATIONS.values()),
    ("operations_message", OPERATIONS_MESSAGE),
    *(("event", one) for one in EVENTS.values()),
    ("events_message", EVENTS_MESSAGE),
]


def nested(levels: int) -> dict[str, Any]:
    inside: dict[str, Any] = {}
    for _ in range(levels):
        inside = {"a": inside}
    return inside


def in_circles() -> dict[str, Any]:
    circle: dict[str, Any] = {}
    circle["a"] = circle
    return circle


@pytest.mark.parametrize(("name", "sent"), EXAMPLES)
def test_success_carries_the_data(name: str, sent: dict[str, Any]) -> None:
    parse, validate = PAIRS[name]
    answer = validate(sent)
    assert (answer.success, answer.data, answer.error) == (True, parse(sent), None)
    assert parse(json.dumps(answer.to_dict()["data"])) == answer.data


def test_the_names_are_listed_before_they_are_loaded() -> None:
    assert {*wap_kernel.__all__, "load_ipython_extension"} <= {*dir(wap_kernel)}


def test_failure_carries_the_error_that_parse_raises() -> None:
    sent = {"type": "readFile", "path": "/etc/passwd"}
    answer = wap_kernel.validate_operation(sent)
    assert not answer.success and answer.data is None and answer.error is not None
    assert answer.to_dict() == {"success": False, "error": "readFile.path: Path must be relative"}
    with pytest.raises(InvalidArgument) as caught:
        wap_kernel.parse_operation(sent)
    assert caught.value.details == answer.error.details


EVENT = EVENTS["error"]
AWKWARD: dict[str, Callable[[], object]] = {
    "nothing": lambda: None,
    "number": lambda: 7,
    "object": lambda: object(),
    "class": lambda: dict,
    "empty text": lambda: "",
    "no JSON": lambda: "{",
    "no UTF-8": lambda: b"\xff\xfe",
    "half a character": lambda: "\ud800",
    "escaped half a character": lambda: '{"type": "message", "content": "\\ud800"}',
    "half a character as a name": lambda: {"type": "message", "content": "", "\ud800": 1},
    "names that are no text": lambda: {1: 2, None: 3, "type": "message"},
    "type that is no text": lambda: {"type": ["message"]},
    "deep JSON": lambda: '{"a":' * 100_000,
    "deep list in JSON": lambda: f'{{"type": "message", "success": true, "a": {"[" * 5_000}{"]" * 5_000}}}',
    "deep": lambda: nested(100_000),
    "deep inside": lambda: {**EVENT, "details": nested(100_000)},
    "deep beside": lambda: {**EVENT, "more": nested(100_000)},
    "deep operations": lambda: {"protocolVersion": "1.0", "operations": [nested(100_000)]},
    "in circles": lambda: {**EVENT, "details": in_circles()},
    "no JSON inside": lambda: {**EVENT, "details": {"a": object()}},
    "long": lambda: "x" * 5_000_000,
    "many parts": lambda: b'{"type": "message", "a": [' + b"0," * 100_000 + b"0]}",
    "a large number": lambda: f'{{"type": "shell", "command": "a", "timeout": {"9" * 5_000}}}',
    "many fields": lambda: {str(number): 0 for number in range(1_000)},
    "many operations": lambda: {"protocolVersion": "1.0", "operations": [{}] * 100_000},
}
"""How to make an input: the deep ones stay in no process that does not test them."""


@pytest.mark.parametrize("case", AWKWARD)
@pytest.mark.parametrize("name", NAMES)
def test_awkward_input_is_refused_and_never_breaks_anything(name: str, case: str) -> None:
    answer = PAIRS[name][1](AWKWARD[case]())
    assert not answer.success
    json.dumps(answer.to_dict())


scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()) | st.binary()
names = st.sampled_from(
    "type id path content encoding overwrite edits oldContent newContent command cwd timeout env protocolVersion"
    " operations events runId status success operationType reason details category message timestamp".split()
) | st.text(max_size=3)
words = st.sampled_from([*OPERATIONS, *EVENTS, "1.0", "completed", "utf-8", "base64", "moveFile", "system"])
anything = st.recursive(
    scalars | words,
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(names, inside, max_size=8),
    max_leaves=12,
)


@given(st.sampled_from(EXAMPLES), st.dictionaries(names, anything, max_size=3), st.sampled_from(NAMES))
def test_whatever_is_sent_validates_or_does_not_but_never_raises(
    example: tuple[str, dict[str, Any]], changes: dict[str, Any], name: str
) -> None:
    for validated in (name, example[0]):
        for sent in ({**example[1], **changes}, changes):
            answer = PAIRS[validated][1](sent)
            assert answer.success is (answer.error is None) is (answer.data is not None)


@given(anything | st.binary() | st.text(), st.sampled_from(NAMES))
def test_whatever_it_is(sent: object, name: str) -> None:
    PAIRS[name][1](sent)


text = st.text(max_size=20)
paths = st.text(st.characters(exclude_characters="\0/.", exclude_categories=["Cs"]), min_size=1, max_size=60)
optional_id = st.fixed_dictionaries({}, optional={"id": st.text(min_size=1, max_size=20)})


def operation(type_: str, required: dict[str, Any], optional: dict[str, Any] | None = None) -> st.SearchStrategy[Any]:
    fields = st.fixed_dictionaries({"type": st.just(type_), **required}, optional=optional)
    return st.tuples(fields, optional_id).map(lambda both: both[0] | both[1])


operations = st.one_of(
    operation("message", {"content": text}),
    operation("createFile", {"path": paths, "content": text}, {"overwrite": st.booleans()}),
    operation("readFile", {"path": paths}, {"encoding": st.sampled_from(["utf-8", "base64"])}),
    operation(
        "editFile",
        {
            "path": paths,
            "edits": st.lists(
                st.fixed_dictionaries({"oldContent": st.text(min_size=1, max_size=9), "newContent": text}), min_size=1
            ),
        },
    ),
    operation("deleteFile", {"path": paths}),
    operation(
        "shell",
        {"command": st.text(min_size=1, max_size=20)},
        {"cwd": paths, "timeout": st.integers(1_000, 3_600_000), "env": st.dictionaries(text, text, max_size=3)},
    ),
)


@given(st.lists(operations, max_size=5, unique_by=lambda one: one.get("id", object())))
def test_what_is_accepted_is_accepted_again(sent: list[dict[str, Any]]) -> None:
    message = wap_kernel.parse_operations_message({"protocolVersion": "1.0", "operations": sent})
    again = message.model_dump(by_alias=True)
    assert wap_kernel.parse_operations_message(again) == message
    assert wap_kernel.parse_operations_message(json.dumps(again)) == message
    assert [one.model_dump(by_alias=True, exclude_unset=True) for one in message.operations] == sent
    ids = [step.id for step in message.steps()]
    assert len(set(ids)) == len(sent)


def test_the_package_stays_light_until_it_is_asked() -> None:
    program = (
        "import sys, wap_kernel; assert 'pydantic' not in sys.modules;"
        "from wap_kernel import *; assert validate_operation({}).success is False;"
        "assert not hasattr(wap_kernel, 'nothing')"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
