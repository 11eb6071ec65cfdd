"""Read and create files in a batch without a policy decision per file.

Nearly every file of a batch lies behind a path without links, under a policy by which only the guard decides
(`EffectivePolicy.only_guard_decides`). The kernel then makes sure that the path as it is written is the path that is
reached, and the guard checks that one path. For every other operation, and for every failure, the fast path returns
None and the pipeline in `pipeline.py` performs the operation from the beginning.
"""

from __future__ import annotations

import sys

from wap_kernel.files.contained.linkless import LinklessFiles
from wap_kernel.files.contained.root import Root
from wap_kernel.files.notebooks import validation
from wap_kernel.files.read import WholeFile, read_whole
from wap_kernel.model.errors import WapError
from wap_kernel.model.operations import Operation, ReadFile, WriteFile
from wap_kernel.model.results import Limits
from wap_kernel.policy.current import BoundPolicy


class FastPath:
    """The files that one bound policy opens without further decisions."""

    def __init__(self, root: Root, policy: BoundPolicy, limits: Limits) -> None:
        effective = policy.effective
        self.files: LinklessFiles | None = root.open_linkless(policy.guard) if effective.only_guard_decides else None
        """The files behind paths without links; None where the fast path is closed."""
        self._effective = effective
        self._max_read = limits.max_file_size
        self._max_size = _least(effective.max_file_size)
        self._max_new = min(self._max_size, _least(effective.max_edit_size), limits.max_write_size)

    def read(self, operation: ReadFile) -> WholeFile | None:
        """Return the whole file, or None: then the pipeline must read it."""
        if self.files is None or operation.within != ".":
            return None
        if operation.start_line is not None or operation.end_line is not None:
            return None
        try:
            file = self.files.open(operation.path)
            if file is None:
                return None
            with file:
                if file.stat.size > self._max_size:
                    return None
                return read_whole(file, operation.encoding, operation.max_size or self._max_read)
        except (OSError, WapError, ValueError):  # the last: no file can have such a name
            return None

    def accepts(self, operation: Operation) -> bool:
        """Return whether `operation` creates a file in the way of the fast path, provided that its path `is_free`."""
        return (
            isinstance(operation, WriteFile)
            and operation.mode == "create"
            and operation.expected_hash is None
            and operation.within == "."
            and ".." not in operation.path  # only the pipeline resolves those
            and len(operation.content) <= self._max_new
            and not validation.is_notebook(operation.path)
            and self._effective.find_obeyed(operation.path) is None  # it asks
            and self.files is not None
        )

    def is_free(self, path: str) -> bool:
        try:
            return self.files is not None and self.files.is_free(path)
        except (OSError, WapError, ValueError):
            return False


def _least(limit: int | None) -> int:
    return sys.maxsize if limit is None else limit
