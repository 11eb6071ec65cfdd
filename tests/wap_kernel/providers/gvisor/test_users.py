"""gVisor for an ordinary user, where the tests themselves run as root."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.ordinary_user import open_user_folder, run_tests
from wap_kernel.providers.base import Probe

HERE = Path(__file__).parent


@pytest.mark.parametrize("name", ["test_files.py", "test_prepared_layers.py"])
def test_as_an_ordinary_user(works: Probe, name: str) -> None:
    with open_user_folder() as folder:
        run_tests(folder, str(HERE / name))
