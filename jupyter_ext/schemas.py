"""The JSON Schemas of the dialects' models; see `wap_kernel.dialects.schemas`."""

from __future__ import annotations

from wap_kernel.dialects.schemas import Schema, of

__all__ = ["Schema", "of"]
