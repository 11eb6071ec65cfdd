"""Programs of others for tests marked `download`: installed once, in a cache folder outside the repository."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

FOLDER = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "wap-tests"
PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"
INSTALL_SECONDS = 900
_DONE = "setup-done"


def install_npm(name: str, *packages: str) -> Path:
    """Return the folder with the commands of npm packages; skip the test where they cannot be installed."""
    if shutil.which("npm") is None:
        pytest.skip(f"{name}: npm is not installed")
    folder = FOLDER / name
    options = ["--no-save", "--no-package-lock", "--no-audit", "--no-fund", "--silent"]
    _install(name, folder, packages, [["npm", "install", "--prefix", str(folder), *options, *packages]])
    return folder / "node_modules" / ".bin"


def install_npm_lock(name: str, source: Path) -> Path:
    """Return the folder with the commands of the packages that `source` locks, or skip the test."""
    if shutil.which("npm") is None:
        pytest.skip(f"{name}: npm is not installed")
    folder = FOLDER / name
    files = [source / "package.json", source / "package-lock.json"]
    install = ["npm", "ci", "--no-audit", "--no-fund", "--silent"]
    _install(name, folder, [file.read_text() for file in files], [["cp", *map(str, files), str(folder)], install])
    return folder / "node_modules" / ".bin"


def install_python(name: str, *requirements: str) -> Path:
    """Return the Python of an environment with `requirements`; skip the test where they cannot be installed."""
    folder = FOLDER / name
    python = folder / "bin" / "python"
    install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *requirements]
    _install(name, folder, requirements, [[sys.executable, "-m", "venv", "--clear", str(folder)], install])
    return python


def _install(name: str, folder: Path, wanted: Sequence[str], commands: Sequence[Sequence[str]]) -> None:
    # What is installed from here must be installed anew when its dependencies change.
    own = PYPROJECT.read_text() if "--editable" in wanted else ""
    key = json.dumps([*wanted, sys.version, own])
    with _lock(name):
        if (folder / _DONE).exists() and (folder / _DONE).read_text() == key:
            return
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for command in commands:
            done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_SECONDS, cwd=folder)
            if done.returncode != 0:
                pytest.skip(f"{name} does not install here: {(done.stderr or done.stdout).strip()[-500:]}")
        (folder / _DONE).write_text(key)


@contextmanager
def _lock(name: str) -> Iterator[None]:
    """Let one process of the tests install at a time; the others wait for it."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with (FOLDER / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
