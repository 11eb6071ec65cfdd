"""Teach papermill to write parameters for the `wap` kernel.

papermill loads the engines that packages declare, and with this one its translator. So `papermill -p name value` needs
no further option. The engine itself is papermill's own.
"""

from __future__ import annotations

import json
from typing import Any

from papermill.engines import NBClientEngine  # type: ignore[import-untyped, import-not-found, unused-ignore]
from papermill.translators import (  # type: ignore[import-untyped, import-not-found, unused-ignore]
    PythonTranslator,
    papermill_translators,
)

__all__ = ["NBClientEngine", "WapTranslator"]


class WapTranslator(PythonTranslator):  # type: ignore[misc, unused-ignore] # papermill has no types
    """The translator of parameters into lines of `name = JSON`."""

    @classmethod
    def translate(cls, val: Any) -> str:
        return json.dumps(val)

    @classmethod
    def codify(cls, parameters: dict[str, Any], comment: str = "Parameters") -> str:
        lines = [f"# {comment}", *(f"{name} = {cls.translate(value)}" for name, value in parameters.items())]
        return "\n".join((*lines, ""))


papermill_translators.register("wap", WapTranslator)
