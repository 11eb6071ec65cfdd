"""Serve scenarios with the fixtures of the engine's tests and of the server's."""

from __future__ import annotations

from tests.jupyter_ext.conftest import *  # noqa: F403
from tests.wap_kernel.conftest import make_tools, tools  # noqa: F401
