from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.coding_environment import Coding
from tests.support.provider_workspace import ALL, skip_if_lacking, skip_unless_works
from tests.support.tool_interface import Interface, opened

COMMIT = re.compile(r"\b[0-9a-f]{40}\b")
VARYING = frozenset({"duration_ms", "runId", "approvalId", "isolation"})


@pytest.fixture
def coding(tmp_path: Path) -> Coding:
    (tmp_path / "ws").mkdir()
    return Coding(tmp_path / "ws", tmp_path / "state")


Answers = dict[str, list[object]]


@pytest.fixture(scope="module")
def given() -> Answers:
    """What the first provider answered in each scenario."""
    return {}


@pytest.fixture(params=ALL, scope="module")
def provided(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Interface]:
    skip_unless_works(request.param)
    with opened(tmp_path_factory.mktemp(request.param), provider=request.param) as tools:
        yield tools


@pytest.fixture
def on_each(request: pytest.FixtureRequest, provided: Interface, given: Answers) -> Iterator[Interface]:
    """An empty workspace. Whatever the provider, the answers are the same."""
    provided.clear()
    yield provided
    answers = [comparable(answer) for answer in provided.said]
    assert answers == given.setdefault(request.node.originalname, answers)


def comparable(answer: Any) -> Any:
    """Return the answer without what differs each time or with the provider: durations, runs, commits."""
    if isinstance(answer, Mapping):
        return {key: comparable(value) for key, value in answer.items() if key not in VARYING}
    if isinstance(answer, str):
        return COMMIT.sub("COMMIT", answer)
    return [comparable(each) for each in answer] if isinstance(answer, list | tuple) else answer


@pytest.fixture
def statx(provided: Interface) -> None:
    """For what runs `ls` or git, which an old gvisor cannot."""
    skip_if_lacking(provided.provider, "statx")
