"""Read the layers of the policy on this machine, before every operation.

A file is read each time and parsed when its bytes have changed: for a file of this size that costs no more than a few
calls, and unlike a comparison of times and sizes it cannot miss a change. `parse.py` reads the bytes.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterable, Mapping

from wap_kernel.files.globs.parse import expand_braces
from wap_kernel.files.interface import FileKind, Files
from wap_kernel.model.errors import PermissionDenied, WapError, translate_os_error
from wap_kernel.model.limits import MAX_POLICY_BYTES
from wap_kernel.model.paths import join_path
from wap_kernel.model.policy import Layers, Policy
from wap_kernel.policy.effective import EffectivePolicy
from wap_kernel.policy.parse import merge_policy, parse_policy

__all__ = ["ADMINISTRATOR_FILE", "WORKSPACE_FILE", "PolicyFiles", "merge_policy", "parse_policy"]

ADMINISTRATOR_FILE = "/etc/jupyter/wap-policy.json"
POLICY_VARIABLE = "WAP_POLICY"
WORKSPACE_FILE = ".cws-policy.json"

MAX_CACHED = 256
"""Policies of folders in the cache; callers choose the folders, so there is a bound."""


class PolicyFiles:
    """The policy files that bind this workspace, for any thread.

    `files` are the workspace's own, under a guard that knows the protected paths but no policy: a policy that denies
    hidden files must not make itself unreadable. `preset` is the server's own layer.
    """

    def __init__(
        self,
        files: Files,
        *,
        preset: Policy | None = None,
        administrator: str = ADMINISTRATOR_FILE,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._files = files
        self._preset = preset
        self._administrator = administrator
        # Once: code that runs in the server later shall not name another file.
        self._named = (os.environ if environment is None else environment).get(POLICY_VARIABLE, "")
        self._known: dict[tuple[str, str], tuple[bytes, Policy]] = {}
        self._last: tuple[Layers, EffectivePolicy | None] = ((), None)

    def layers(self) -> Layers:
        """Return the layers, from the administrator's to the workspace's; the same object while nothing has changed."""
        found = tuple(
            layer
            for layer in (
                self._layer(self._administrator, lambda: _read(self._administrator)),
                self._by_variable(),
                self._preset,
                self.layer_for("."),
            )
            if layer is not None
        )
        last, _ = self._last
        if _is_same(found, last):
            return last
        self._last = (found, None)
        return found

    def effective(self) -> EffectivePolicy:
        """Return the compiled layers. They are compiled again only when one has changed."""
        layers = self.layers()
        known, compiled = self._last
        if known is not layers or compiled is None:
            compiled = EffectivePolicy(layers)
            self._last = (layers, compiled)
        return compiled

    def layer_for(self, folder: str) -> Policy | None:
        """Return the layer in the `.cws-policy.json` of `folder`, with patterns relative to that folder, or None."""
        path = join_path(folder, WORKSPACE_FILE)
        return self._layer(path, lambda: self._read(path), folder=folder, is_workspace_policy=True)

    def _by_variable(self) -> Policy | None:
        if not self._named:
            return None
        if not os.path.isabs(self._named):
            return Policy(name=POLICY_VARIABLE, broken=f"{POLICY_VARIABLE} names a relative path; it must begin with /")
        layer = self._layer(POLICY_VARIABLE, lambda: _read(self._named))
        return layer or Policy(name=POLICY_VARIABLE, broken=f"the file that {POLICY_VARIABLE} names does not exist")

    def _layer(
        self, name: str, read: Callable[[], bytes | None], *, folder: str = ".", is_workspace_policy: bool = False
    ) -> Policy | None:
        try:
            data = read()
        except OSError as error:
            return Policy(name=name, broken=translate_os_error(error, name).message)
        except WapError as error:
            return Policy(name=name, broken=error.message)
        key = (name, folder)
        if data is None:
            self._known.pop(key, None)
            return None
        known = self._known.get(key)
        if known is None or known[0] != data:
            if len(self._known) >= MAX_CACHED:
                self._known.clear()
            policy = _rebase(parse_policy(data, name), folder).model_copy(
                update={"is_workspace_policy": is_workspace_policy}
            )
            known = self._known[key] = (data, policy)
        return known[1]

    def _read(self, path: str) -> bytes | None:
        try:
            if self._files.stat(path, follow=False).kind is FileKind.LINK:
                # The name is protected, and what a link leads to has another one.
                raise PermissionDenied(f"The policy file must not be a link: {path}")
            with self._files.open(path) as file:
                return file.read(MAX_POLICY_BYTES + 1)
        except (FileNotFoundError, NotADirectoryError):
            return None


def _read(path: str) -> bytes | None:
    try:
        # O_NONBLOCK: a FIFO must not keep the server waiting for somebody who writes.
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        if os.path.islink(path):
            raise _leads_nowhere(path) from None
        return None
    with open(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise PermissionDenied(f"The policy is not a regular file: {path}")
        return file.read(MAX_POLICY_BYTES + 1)


def _leads_nowhere(path: str) -> PermissionDenied:
    return PermissionDenied(f"The policy file is a link that leads nowhere: {path}")


def _is_same(found: Layers, known: Layers) -> bool:
    return len(found) == len(known) and all(new is old for new, old in zip(found, known, strict=True))


def escape_glob(path: str) -> str:
    """Return a pattern that matches this path and nothing else."""
    return re.sub(r"([\\*?\[\]{}!#])", r"\\\1", path)


def _rebase(policy: Policy, folder: str) -> Policy:
    """Return the policy with its patterns relative to the root; in the file they are relative to `folder`."""
    if folder == "." or policy.broken is not None:
        return policy
    prefix = escape_glob(folder)
    filesystem = policy.filesystem
    allowed = filesystem.allowed_paths
    changes = {
        "denied_paths": tuple(_excluding_below(prefix, filesystem.denied_paths)),
        "read_only_paths": tuple(_excluding_below(prefix, filesystem.read_only_paths)),
        "allowed_paths": None if allowed is None else tuple(f"{prefix}/{one.removeprefix('./')}" for one in allowed),
    }
    obeyed = tuple(_excluding_below(prefix, policy.effects.obeyed_files))
    return policy.model_copy(
        update={
            "filesystem": filesystem.model_copy(update=changes),
            "effects": policy.effects.model_copy(update={"obeyed_files": obeyed}),
        }
    )


def _excluding_below(prefix: str, patterns: Iterable[str]) -> Iterable[str]:
    for pattern in patterns:
        for line in expand_braces(pattern):
            negation, body = ("!", line[1:]) if line.startswith("!") else ("", line)
            anywhere = "" if "/" in body.rstrip("/") else "**/"
            yield f"{negation}{prefix}/{anywhere}{body.removeprefix('./').removeprefix('/')}"
