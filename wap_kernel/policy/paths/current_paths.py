"""Find the protected paths of this machine, and those that change while the server runs.

A protected name may become a link, and then what it leads to counts. A kernel may be registered whose environment lies
below the root: its start executes what stands there, outside of any sandbox.
"""

from __future__ import annotations

import functools
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from wap_kernel.model.paths import Access, relative_to
from wap_kernel.policy.paths.git_folders import lies_in_git_folder
from wap_kernel.policy.paths.home_names import HOME_FILES, HOME_SECRETS, PROGRAM_FOLDERS
from wap_kernel.policy.paths.kernel_paths import KernelPaths
from wap_kernel.policy.paths.link_targets import LinkTargets
from wap_kernel.policy.paths.protected import ProtectedPaths, Protection, fold_path, read_only_error
from wap_kernel.providers.kernelspecs import find_kernel_folders, list_prefix_paths
from wap_kernel.providers.process import environment

KERNEL_FOLDERS = ("/proc", "/sys", "/dev")
"""Folders of the kernel, where the environment of every process can be read, the server's among them."""
RECENT_SECONDS = 1.0
"""Age up to which a read relies on the last search for links and kernels."""


class CurrentPaths(ProtectedPaths):
    """Protected paths with the links and kernels of this moment, for any thread.

    A write asks for them anew. A read and a listing cost nothing more, and may know only those of a second ago.
    """

    def __init__(self, fixed: ProtectedPaths, root: str, links: LinkTargets, kernels: KernelPaths) -> None:
        """Take what never changes as `fixed`, and a real path as `root`."""
        super().__init__(fixed.hidden, fixed.read_only, fixed.secrets, fixed.fixed_paths, fixed.prefixes)
        self._fixed = fixed
        self._root = root
        self._links = links
        self._kernels = kernels
        self._lock = threading.Lock()
        self._found: tuple[object, object] = (None, None)
        self._targets: Mapping[str, Protection] = {}
        self._now = fixed
        self._next = 0.0
        self.snapshot()

    def snapshot(self) -> ProtectedPaths:
        with self._lock:
            targets, kernels = self._links.find(), self._kernels.find()
            if self._found[0] is not targets or self._found[1] is not kernels:
                self._found = (targets, kernels)
                self._targets = {
                    inner: Protection(level)
                    for path, level in targets.items()
                    if (inner := relative_to(path, self._root)) is not None
                }
                hidden = (path for path, level in targets.items() if level == Protection.HIDDEN)
                read_only = (path for path, level in targets.items() if level == Protection.READ_ONLY)
                find_inner = _PathsBelow(self._root).find
                self._now = replace(
                    self._fixed,
                    hidden=self._fixed.hidden.union(find_inner(hidden, ancestors=True)),
                    read_only=self._fixed.read_only.union(find_inner((*read_only, *kernels))),
                )
            self._next = time.monotonic() + RECENT_SECONDS
            return self._now

    def find_link_targets(self) -> Mapping[str, Protection]:
        self.snapshot()
        return self._targets

    def _recent(self) -> ProtectedPaths:
        return self._now if time.monotonic() < self._next else self.snapshot()

    def level(self, path: str) -> Protection:
        return self._recent().level(path)

    def check(self, path: str, access: Access, *, folder: bool = False) -> None:
        if access is not Access.WRITE:
            self._recent().check(path, access, folder=folder)
            return
        self.snapshot().check(path, access, folder=folder)
        if lies_in_git_folder(self._root, path):
            raise read_only_error(path)

    def check_tree(self, path: str) -> None:
        self.snapshot().check_tree(path)

    def hidden_names(self, folder: str) -> frozenset[str]:
        return self._recent().hidden_names(folder)

    def read_only_names(self, folder: str) -> frozenset[str]:
        return self._recent().read_only_names(folder)

    def names_leading_to_hidden(self, folder: str) -> frozenset[str]:
        return self._recent().names_leading_to_hidden(folder)


def find_protected_paths(
    root: str, state_dir: str, *, hidden: Sequence[str] = (), read_only: Sequence[str] = ()
) -> ProtectedPaths:
    """Return the protected paths of this machine below `root`; the server adds `hidden` and `read_only`."""
    from jupyter_core.paths import (
        jupyter_config_dir,
        jupyter_config_path,
        jupyter_data_dir,
        jupyter_path,
        jupyter_runtime_dir,
    )

    home = os.path.expanduser("~")
    real_root = os.path.realpath(root)
    ipython = os.environ.get("IPYTHONDIR") or os.path.join(home, ".ipython")
    prefixes = environment.interpreter_prefixes(os.environ)
    # The states of other workspaces are no more this one's business than its own.
    secret = (
        *(state_dir, os.path.join(jupyter_data_dir(), "wap"), jupyter_runtime_dir()),
        *_at_home(home, HOME_SECRETS),
        *hidden,
    )
    obeyed = (
        *(jupyter_config_dir(), jupyter_data_dir(), *jupyter_config_path(), *jupyter_path(), ipython),
        *_at_home(home, HOME_FILES),
        *prefixes,
        *read_only,
    )
    # A root that is a prefix, or lies in one, is a person's work.
    own = (prefix for prefix in prefixes if os.path.realpath(prefix) == real_root)
    obeyed += tuple(path for prefix in own for path in list_prefix_paths(prefix, real_root))
    kernels = KernelPaths(real_root, find_kernel_folders(ipython))
    fixed = (*secret, *obeyed, *kernels.find())
    profile = os.path.join(ipython, "profile_default")
    searched = {*_at_home(home, (*HOME_FILES, *HOME_SECRETS)), jupyter_config_dir()} - {
        *_at_home(home, PROGRAM_FOLDERS)
    }
    below = _PathsBelow(real_root)
    links = LinkTargets((os.path.realpath(home), real_root), below.resolve)
    for level, names in ((Protection.HIDDEN, secret), (Protection.READ_ONLY, obeyed)):
        for name in filter(None, names):
            links.add(name, level, is_searched=name in searched)
    for name in (profile, os.path.join(profile, "startup")):
        links.add(name, Protection.READ_ONLY, is_searched=True)
    paths = ProtectedPaths(
        hidden=frozenset((*below.find(secret, ancestors=True), *below.find(KERNEL_FOLDERS))),
        read_only=frozenset(below.find(obeyed)),
        secrets=tuple(filter(None, secret)),
        fixed_paths=tuple(sorted({inner for path in fixed if path for inner in below.find_names(path)})),
        prefixes=prefixes,
    )
    return CurrentPaths(paths, real_root, links, kernels)


def _at_home(home: str, names: Iterable[str]) -> Iterable[str]:
    """Yield the paths at home, and those where programs that heed the XDG variables look for them."""
    for name in names:
        yield os.path.join(home, name)
        for usual, variable in ((".config/", "XDG_CONFIG_HOME"), (".local/share/", "XDG_DATA_HOME")):
            if name.startswith(usual) and os.environ.get(variable):
                yield os.path.join(os.environ[variable], name.removeprefix(usual))


class _PathsBelow:
    """The places of absolute paths below a root, for one search: each folder is asked once whether it is a link."""

    def __init__(self, root: str) -> None:
        """Take a real path."""
        self._root = root
        self.resolve: Callable[[str], str] = functools.cache(self._resolve)
        """Return what `os.path.realpath` returns."""

    def _resolve(self, path: str) -> str:
        folder, name = os.path.split(path)
        if name in ("", ".", "..") or not os.path.isabs(folder):
            return os.path.realpath(path)
        found = os.path.join(self.resolve(folder), name)
        return os.path.realpath(found) if os.path.islink(found) else found

    def find_names(self, path: str) -> Iterable[str]:
        """Yield `path` relative to the root, with the links on the way followed and as it is spelled.

        Its last name is not followed, since it is the name that counts.
        """
        folder, name = os.path.split(os.path.abspath(path))
        for each in {folder, self.resolve(folder)}:
            inner = relative_to(os.path.join(each, name), self._root)
            if inner:
                yield inner

    def find(self, paths: Iterable[str], *, ancestors: bool = False) -> Iterable[tuple[str, ...]]:
        """Yield `paths` relative to the root; with `ancestors`, one that the root itself lies in closes all of it."""
        for path in filter(None, paths):
            for name in {self.resolve(path), os.path.abspath(path)}:
                relative = relative_to(name, self._root)
                if relative:
                    yield fold_path(relative)
                elif ancestors and relative_to(self._root, name) is not None:
                    yield ()
