"""Serve the tests of the engine with workspaces."""

from __future__ import annotations

from tests.support.workspace_tools import make_tools, tools  # noqa: F401
