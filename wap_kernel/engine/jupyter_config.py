"""What Jupyter's configuration files say of `WapExtension`, for commands that run beside a server and not in it.

Read as a server reads them, so a `jupyter_server_config.py` is executed. What stands on a server's command line or in
another place that only the server knows is not seen.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

SECTION = "WapExtension"
FILES = ("jupyter_server_config", "jupyter_wap_config")
"""The server's own and the extension's; the later one wins."""


def read_settings() -> Mapping[str, Any]:
    """Traits and their values; those that are not configured are missing."""
    from jupyter_core.application import JupyterApp

    app = JupyterApp()
    found: dict[str, Any] = {}
    for name in FILES:
        app.config_file_name = name
        app.load_config_file()
        found.update(app.config.get(SECTION, {}))
    values = {name: _resolved(value) for name, value in found.items()}
    return {name: value for name, value in values.items() if value is not None}


def _resolved(value: Any) -> Any:
    """`c.WapExtension.policy.update({...})` leaves a change to the default, which is empty where there can be one; a
    trait that a file only looked at leaves a change that changes nothing."""
    from traitlets.config.loader import LazyConfigValue

    return (value.get_value({}) or None) if isinstance(value, LazyConfigValue) else value
