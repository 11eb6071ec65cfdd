"""Layers for an ordinary user, in user namespaces, where the tests themselves run as root."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.ordinary_user import open_user_folder, run_tests

HERE = Path(__file__).parent


@pytest.mark.parametrize("name", sorted(path.name for path in HERE.glob("test_*.py") if path.name != "test_users.py"))
def test_as_an_ordinary_user(name: str) -> None:
    with open_user_folder() as folder:
        run_tests(folder, str(HERE / name))
