"""Serve the tests of the extension with Jupyter servers."""

from __future__ import annotations

from tests.support.server_fixtures import *  # noqa: F403
