"""Read the settings of `WapExtension` from Jupyter's configuration files, for processes other than the server.

The files are read as a server reads them, so a `jupyter_server_config.py` is executed. Settings on a server's command
line, or elsewhere where only the server looks, are not seen.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

SECTION = "WapExtension"
FILES = ("jupyter_server_config", "jupyter_wap_config")
"""Names of the server's file and of the extension's; the later one wins."""


def read_settings() -> Mapping[str, Any]:
    """Return the configured traits and their values."""
    from jupyter_core.application import JupyterApp

    app = JupyterApp()
    found: dict[str, Any] = {}
    for name in FILES:
        app.config_file_name = name
        app.load_config_file()
        found.update(app.config.get(SECTION, {}))
    values = {name: _resolve_lazy(value) for name, value in found.items()}
    return {name: value for name, value in values.items() if value is not None}


def _resolve_lazy(value: Any) -> Any:
    """Return the value of a trait, or None where a file only read the trait.

    `c.WapExtension.policy.update({...})` leaves a change to the default, which is empty for traits with an update.
    """
    from traitlets.config.loader import LazyConfigValue

    return (value.get_value({}) or None) if isinstance(value, LazyConfigValue) else value
