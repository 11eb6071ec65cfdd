"""Serve scenarios with Jupyter servers and with workspaces."""

from __future__ import annotations

from tests.support.server_fixtures import *  # noqa: F403
from tests.support.workspace_tools import make_tools, tools  # noqa: F401
