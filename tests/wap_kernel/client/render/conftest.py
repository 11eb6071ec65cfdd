"""Record the answers of a real engine once for all tests here."""

from __future__ import annotations

import pytest

from tests.support.recorded_answers import Recorded, record_answers


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    return record_answers(tmp_path_factory.mktemp("render"))
