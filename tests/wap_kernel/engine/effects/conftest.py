"""A workspace with layers."""

from __future__ import annotations

from tests.support.layer_workspace import workspace

__all__ = ["workspace"]
