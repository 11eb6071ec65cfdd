"""Find the paths below the root that kernels execute or obey when a person starts them, as they are now."""

from __future__ import annotations

from collections.abc import Sequence

from wap_kernel.files.stamps import Stamps
from wap_kernel.providers.kernelspecs import list_obeyed_paths, list_spec_paths, read_kernelspecs


class KernelPaths:
    """The paths of the kernels that are described in `folders`. For one thread at a time."""

    def __init__(self, root: str, folders: Sequence[str]) -> None:
        """Take a real path as `root`."""
        self._root = root
        self._folders = tuple(dict.fromkeys(folders))
        self._stamps: Stamps | None = None
        self._paths: tuple[str, ...] = ()

    def find(self) -> tuple[str, ...]:
        """Return absolute paths; the same object while nothing has changed."""
        if self._stamps is not None and self._stamps.are_current():
            return self._paths
        self._stamps = stamps = Stamps()
        for folder in self._folders:
            stamps.note(folder)
        specs = tuple(list_spec_paths(self._folders))
        for path in specs:
            stamps.note(path)
        found: dict[str, None] = {}
        for spec in read_kernelspecs(specs):
            obeyed = tuple(list_obeyed_paths(spec, self._root))
            for path in spec.argv if obeyed else ():
                if path.startswith("/"):
                    stamps.note(path)
            found.update(dict.fromkeys(obeyed))
        if tuple(found) != self._paths:
            self._paths = tuple(found)
        return self._paths
