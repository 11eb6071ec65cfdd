"""The Jupyter server extension: WAP's routes on Jupyter's own port, behind Jupyter's own authentication.

Importing this package costs next to nothing; the application loads when a server asks for it.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as in `typing`, without importing it
if TYPE_CHECKING:
    from typing import Any


def _jupyter_server_extension_points() -> list[dict[str, Any]]:
    from .app import WapExtension

    return [{"module": "jupyter_ext.app", "app": WapExtension}]
