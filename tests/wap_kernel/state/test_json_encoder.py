"""One encoder for many objects writes what `json.dumps` writes."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from tests.support.budgets import limit_examples
from wap_kernel.state.json_encoder import make_encoder

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)
ENCODE = make_encoder()
SORTED = make_encoder(sort_keys=True, separators=(",", ":"), default=repr)


@limit_examples(20)  # nested values take long to draw
@given(st.dictionaries(st.text(), VALUES))
def test_it_writes_what_dumps_writes(value: dict[str, object]) -> None:
    assert ENCODE(value) == json.dumps(value)
    assert SORTED(value) == json.dumps(value, sort_keys=True, separators=(",", ":"))


def test_what_json_has_not_is_told_as_asked() -> None:
    assert SORTED({"a": b"x"}) == '{"a":"b\'x\'"}'
