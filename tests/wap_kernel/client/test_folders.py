"""The folder in which a server leaves its address, for every way to name it: where `jupyter_core` says it is."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from jupyter_core import paths
from platformdirs import windows
from platformdirs.macos import MacOS

from wap_kernel.client.folders import runtime_folder

NAMES = (
    "JUPYTER_RUNTIME_DIR",
    "JUPYTER_DATA_DIR",
    "JUPYTER_CONFIG_DIR",
    "JUPYTER_PLATFORM_DIRS",
    "XDG_DATA_HOME",
    "APPDATA",
    "LOCALAPPDATA",
)
CASES: list[dict[str, str]] = [
    {},
    {"JUPYTER_RUNTIME_DIR": "/run/jupyter"},
    {"JUPYTER_RUNTIME_DIR": "", "JUPYTER_DATA_DIR": "/data"},
    {"JUPYTER_DATA_DIR": "relative"},
    {"JUPYTER_DATA_DIR": "", "XDG_DATA_HOME": "/xdg"},
    {"XDG_DATA_HOME": "relative"},
    {"XDG_DATA_HOME": ""},
    {"JUPYTER_PLATFORM_DIRS": "1"},
    {"JUPYTER_PLATFORM_DIRS": ""},
    {"JUPYTER_PLATFORM_DIRS": "Off"},
    {"JUPYTER_PLATFORM_DIRS": "0.0", "XDG_DATA_HOME": "/xdg"},
    {"JUPYTER_PLATFORM_DIRS": "yes", "XDG_DATA_HOME": "/xdg"},
    {"JUPYTER_PLATFORM_DIRS": "yes", "XDG_DATA_HOME": "relative"},
    {"JUPYTER_PLATFORM_DIRS": "yes", "JUPYTER_DATA_DIR": "/data"},
    {"JUPYTER_CONFIG_DIR": "/config"},
    {"APPDATA": "/roaming"},
]


@pytest.fixture
def clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """A home behind a link, as some systems have it."""
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "home").mkdir()
    (tmp_path / "link").symlink_to("home")
    monkeypatch.setenv("HOME", str(tmp_path / "link"))
    monkeypatch.setenv("USERPROFILE", str(tmp_path / "link"))
    return monkeypatch


def _set(patch: pytest.MonkeyPatch, environ: dict[str, str]) -> None:
    for name, value in environ.items():
        patch.setenv(name, value)


@pytest.mark.parametrize("environ", CASES, ids=str)
def test_it_is_where_jupyter_has_it(clean: pytest.MonkeyPatch, environ: dict[str, str]) -> None:
    _set(clean, environ)
    assert runtime_folder(os.environ) == paths.jupyter_runtime_dir()


@pytest.mark.parametrize("platform", ["darwin", "win32", "freebsd14"])
@pytest.mark.parametrize("environ", [case for case in CASES if "JUPYTER_PLATFORM_DIRS" not in case], ids=str)
def test_on_other_systems_too(clean: pytest.MonkeyPatch, environ: dict[str, str], platform: str) -> None:
    _set(clean, environ)
    clean.setattr(sys, "platform", platform)
    assert runtime_folder(os.environ, platform) == paths.jupyter_runtime_dir()


def test_the_places_of_the_platform_on_other_systems(clean: pytest.MonkeyPatch) -> None:
    clean.setenv("JUPYTER_PLATFORM_DIRS", "1")
    clean.setenv("LOCALAPPDATA", "/local")
    clean.setattr(windows, "get_win_folder", windows.get_win_folder_from_env_vars)  # the system itself is not here
    for platform, dirs in (("darwin", MacOS("Jupyter", False)), ("win32", windows.Windows("Jupyter", False))):
        assert runtime_folder(os.environ, platform) == os.path.join(dirs.user_data_dir, "runtime")
