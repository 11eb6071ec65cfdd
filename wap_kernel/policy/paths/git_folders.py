"""Tell whether a path lies in a folder of git that has another name than `.git`.

A `.git` may be a link or a file that names another folder, and git obeys the `config` and the `hooks` there.
"""

from __future__ import annotations

import os

from wap_kernel.model.paths import relative_to, split_path

GIT = ".git"


def lies_in_git_folder(root: str, path: str) -> bool:
    """Return whether `path`, relative to `root`, is or lies in a repository, or where a `.git` above it leads."""
    if path == ".":
        return False
    folder = root
    if _leads_to(f"{root}/{GIT}", root, path):
        return True
    for name in split_path(path):
        folder = f"{folder}/{name}"
        if _is_repository(folder) or _leads_to(f"{folder}/{GIT}", root, path):
            return True
    return False


def _is_repository(folder: str) -> bool:
    """Return whether git would take the folder for a repository."""
    if not os.access(f"{folder}/HEAD", os.F_OK, follow_symlinks=False):
        return False
    if os.path.exists(f"{folder}/commondir"):
        return True
    return all(os.path.isdir(f"{folder}/{name}") for name in ("objects", "refs"))


def _leads_to(link: str, root: str, path: str) -> bool:
    """Return whether `link` exists, is a link, and leads to a folder that `path` is or lies in."""
    if not os.access(link, os.F_OK, follow_symlinks=False) or not os.path.islink(link):
        return False
    target = os.path.realpath(link)
    return target != root and relative_to(f"{root}/{path}", target) is not None
