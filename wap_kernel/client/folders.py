"""Where Jupyter keeps the files of what runs now, as `jupyter_core` has it, with the standard library."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

_NO = ("no", "n", "false", "off", "0", "0.0")


def runtime_folder(environ: Mapping[str, str], platform: str = sys.platform) -> str:
    return environ.get("JUPYTER_RUNTIME_DIR") or os.path.join(_data(environ, platform), "runtime")


def _data(environ: Mapping[str, str], platform: str) -> str:
    if named := environ.get("JUPYTER_DATA_DIR"):
        return named
    if environ.get("JUPYTER_PLATFORM_DIRS", "no").lower() not in _NO:
        return _of_platform(environ, platform)
    home = os.path.realpath(_home(environ, platform))
    if platform == "darwin":
        return os.path.join(home, "Library", "Jupyter")
    if platform == "win32":
        if roaming := environ.get("APPDATA"):
            return os.path.join(os.path.realpath(roaming), "jupyter")
        return os.path.join(environ.get("JUPYTER_CONFIG_DIR") or os.path.join(home, ".jupyter"), "data")
    return os.path.join(environ.get("XDG_DATA_HOME") or os.path.join(home, ".local", "share"), "jupyter")


def _of_platform(environ: Mapping[str, str], platform: str) -> str:
    """As `platformdirs` has it. On Windows it would ask the system itself, which says the same as the variable unless
    somebody has set that."""
    home = _home(environ, platform)
    if platform == "win32":
        local = environ.get("LOCALAPPDATA") or os.path.join(home, "AppData", "Local")
        return os.path.join(os.path.normpath(local), "Jupyter")
    is_lower = platform != "darwin" or sys.prefix.startswith("/opt/homebrew")
    usual = os.path.join(home, *(("Library", "Application Support") if platform == "darwin" else (".local", "share")))
    named = environ.get("XDG_DATA_HOME", "")
    return os.path.join(named if os.path.isabs(named) else usual, "jupyter" if is_lower else "Jupyter")


def _home(environ: Mapping[str, str], platform: str) -> str:
    return environ.get("USERPROFILE" if platform == "win32" else "HOME") or os.path.expanduser("~")
