"""Resolve the name of a program on the fixed PATH, where the result can be trusted.

A folder that an agent can write proves nothing: what is `ls` there now may be something else when the command runs. So
neither it nor any folder after it on the PATH counts.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from difflib import get_close_matches

from wap_kernel.model.paths import relative_to

BUILTINS = frozenset(
    """
    : . [ alias bg bind break builtin caller cd command compgen complete compopt continue declare dirs disown echo
    enable eval exec exit export false fc fg getopts hash help history jobs kill let local logout mapfile popd printf
    pushd pwd read readarray readonly return set shift shopt source suspend test times trap true type typeset ulimit
    umask unalias unset wait
    """.split()
)
"""Commands that bash performs itself, whatever the PATH holds."""


MAX_DIFFERENCE = 2
"""Letters by which the lengths of a name and of its suggestion differ."""
MIN_LIKENESS = 0.7
"""The least likeness of a suggestion, as `difflib` measures it."""


class Programs:
    """The programs on the PATH. There is no cache: a lookup is as cheap as a check that nothing has changed."""

    def __init__(self, path: str, *, untrusted: Sequence[str], protected: Sequence[str] = ()) -> None:
        """Take folders that an agent can write as `untrusted`, and folders below them that it cannot as `protected`."""
        self._folders = tuple(path.split(os.pathsep))
        self._untrusted = tuple(map(os.path.realpath, untrusted))
        self._protected = tuple(map(os.path.realpath, protected))

    def resolve(self, name: str) -> str | None:
        """Return the real path of the program `name` (a name or an absolute path), or None if none can be trusted."""
        if "/" in name:
            return self._real(name) if name.startswith("/") else None
        for folder in self._folders:
            if not folder.startswith("/") or not self._is_trusted(folder):
                return None
            candidate = os.path.join(folder, name)
            if _is_program(candidate):
                return self._real(candidate)
        return None

    def is_missing(self, name: str) -> bool:
        """Return whether no folder of the PATH has the program `name`, trusted or not."""
        return not any(_is_program(os.path.join(folder, name)) for folder in self._folders)

    def list_names(self) -> frozenset[str]:
        """Return the names of all programs on the PATH, and of the builtins."""
        found = set(BUILTINS)
        for folder in filter(None, self._folders):
            try:
                found |= {name for name in os.listdir(folder) if _is_program(os.path.join(folder, name))}
            except OSError:
                continue  # the PATH names a folder that is not there
        return frozenset(found)

    def _real(self, path: str) -> str | None:
        real = os.path.realpath(path)
        trusted = self._is_trusted(os.path.dirname(path)) and self._is_trusted(os.path.dirname(real))
        return real if trusted and _is_program(real) else None

    def _is_trusted(self, folder: str) -> bool:
        real = os.path.realpath(folder)
        if any(relative_to(real, each) is not None for each in self._protected):
            return True
        return not any(relative_to(real, each) is not None for each in self._untrusted)


def suggest_program(name: str, known: Collection[str]) -> str | None:
    """Return the known program whose name is nearest to `name`, or None where none is near."""
    if name in known or not name:
        return None
    swapped = (name[:at] + name[at + 1] + name[at] + name[at + 2 :] for at in range(len(name) - 1))
    if (found := next((each for each in swapped if each in known), None)) is not None:
        return found  # `gti`: letters in another order are the most common slip
    length = len(name)
    near = [each for each in known if abs(len(each) - length) <= MAX_DIFFERENCE]
    return next(iter(get_close_matches(name, sorted(near), n=1, cutoff=MIN_LIKENESS)), None)


def _is_program(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)
