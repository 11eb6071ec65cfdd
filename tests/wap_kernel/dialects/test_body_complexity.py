"""Counting the structure of a JSON text piece by piece: as a parser would, wherever it is cut."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wap_kernel.dialects.body_complexity import StructureCounter, check_complexity
from wap_kernel.model.errors import InvalidArgument
from wap_kernel.model.limits import MAX_JSON_PARTS, MAX_JSON_STRINGS

texts = st.text(st.sampled_from('a"\\,[{ }]'), max_size=8)
values = st.recursive(
    texts | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(texts, inner), max_leaves=8
)


def _parts(value: Any) -> int:
    """Return the count of a value: each list and object, and each item and field but the first."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inner is None else 1 + max(0, len(value) - 1) + sum(map(_parts, inner))


@given(values, st.integers(1, 5))
def test_strings_hide_what_they_hold_wherever_the_text_is_cut(value: Any, step: int) -> None:
    body = json.dumps(value).encode()
    counting = StructureCounter()
    for start in range(0, len(body), step):
        counting.add(body[start : start + step])
    assert counting._parts == _parts(value)


@pytest.mark.parametrize(
    "body", [b"[" * (MAX_JSON_PARTS + 1), b"," * (MAX_JSON_PARTS + 1), b'""' * (MAX_JSON_STRINGS + 1)]
)
def test_too_much_of_it_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidArgument, match="fields and items"):
        check_complexity(body)


def test_a_long_string_is_nothing() -> None:
    check_complexity(b'{"a": "' + b"[" * 10_000_000 + b"\\\\" * 1_000_000 + b'"}')
