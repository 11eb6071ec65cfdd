"""The git fixtures, for tests of credentials that git could reveal."""

from __future__ import annotations

from tests.wap_kernel.git.conftest import connected, server

__all__ = ["connected", "server"]
