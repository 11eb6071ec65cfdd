"""The ways in which `Root` changes files: directly, or recorded."""

from __future__ import annotations
