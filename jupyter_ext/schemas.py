"""The JSON Schemas of the dialects' models; see `wap_kernel.dialects.json_schema`."""

from __future__ import annotations

from wap_kernel.dialects.json_schema import Schema, of

__all__ = ["Schema", "of"]
