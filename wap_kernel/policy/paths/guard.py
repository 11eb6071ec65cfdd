"""PolicyGuard: the check of every path that a file function really reaches.

Protected paths come first, then the layers of the policy.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from wap_kernel.files.interface import FindFolders
from wap_kernel.model.errors import PathClosed
from wap_kernel.model.paths import Access, render_path
from wap_kernel.policy.effective import EffectivePolicy
from wap_kernel.policy.paths.protected import ProtectedPaths


@dataclass(frozen=True)
class PolicyGuard:
    """A `Guard` for one policy. It is immutable: a policy that changes gets a new one."""

    protected: ProtectedPaths
    effective: EffectivePolicy

    def check(self, path: str, access: Access, *, folder: bool = False) -> None:
        """Raise PathClosed when `access` is refused. `folder`: the path is known to be a folder."""
        self.protected.check(path, access)
        refusal = self.effective.refusal(path, access, folder=folder)
        if refusal is not None:
            raise PathClosed(refusal.reason, hint=refusal.suggestion, path=render_path(path), rule=refusal.rule)

    def check_tree(self, path: str) -> None:
        """Raise PathClosed where the tree holds protected paths. Where `may_hold` is true, check all below as well."""
        self.protected.check_tree(path)

    def may_hold(self, path: str) -> bool:
        """Return whether the folder `path` may hold something that a pattern closes because of its path."""
        return self.effective.may_hold(path)

    def snapshot(self) -> PolicyGuard:
        """Return the guard with the links among protected names and the kernels of this moment, for a walk."""
        return PolicyGuard(self.protected.snapshot(), self.effective)

    def hidden_names(self, folder: str) -> frozenset[str]:
        return self.protected.hidden_names(folder)

    def names_leading_to_hidden(self, folder: str) -> frozenset[str]:
        return self.protected.names_leading_to_hidden(folder)

    def hidden_among(self, folder: str, names: Sequence[str], folders: FindFolders = tuple) -> Collection[str]:
        """Return the entries of `folder` that must be neither listed nor searched.

        Without `folders`, none is taken for a folder on the way to something that `allowedPaths` selects.
        """
        by_policy = self.effective.hidden_among(folder, names, folders)
        return _with_folded(by_policy, names, self.protected.hidden_names(folder))

    def read_only_among(self, folder: str, names: Sequence[str], folders: FindFolders = tuple) -> Collection[str]:
        """Return the entries of `folder` that can be read but not changed, although `folder` can."""
        by_policy = self.effective.read_only_among(folder, names, folders)
        return _with_folded(by_policy, names, self.protected.read_only_names(folder))


def _with_folded(found: Collection[str], names: Sequence[str], folded: frozenset[str]) -> Collection[str]:
    if not folded:
        return found
    together = "/".join(names).casefold()  # nearly always none of them is there, and one search shows it
    if not any(name in together for name in folded):
        return found
    return {*found, *(name for name in names if name.casefold() in folded)}
