"""Operations where nothing but the path has a say, in as few calls as they take.

Of a thousand operations nearly all are like that: no link is on the way, and the policy has nothing to ask but what the
guard is asked about every path anyway. Then the path as it is written is the path that is reached, which the kernel
itself makes sure of. Whatever is not plain is answered None and left to the pipeline in `pipeline.py`, from the
beginning.
"""

from __future__ import annotations

import sys

from wap_kernel.files.contained.linkless import Direct
from wap_kernel.files.contained.root import Root
from wap_kernel.files.notebooks import validation
from wap_kernel.files.read import Whole, read_whole
from wap_kernel.model.errors import WapError
from wap_kernel.model.operations import Operation, ReadFile, WriteFile
from wap_kernel.model.results import Limits
from wap_kernel.policy.current import BoundPolicy


class FastPath:
    """What a binding leaves to plain operations."""

    def __init__(self, root: Root, binding: BoundPolicy, limits: Limits) -> None:
        effective = binding.effective
        self.files: Direct | None = None if _asks(binding) else root.direct(binding.guard)
        """None: nothing is plain."""
        self._max_read = limits.max_file_size
        self._max_size = _least(effective.max_file_size)
        self._max_new = min(self._max_size, _least(effective.max_edit_size), limits.max_write_size)

    def read(self, operation: ReadFile) -> Whole | None:
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
        except (OSError, WapError, UnicodeEncodeError):  # the last: no file has such a name
            return None

    def makes(self, operation: Operation) -> bool:
        """Whether it makes a file, if it can be made at all; `is_free` tells that."""
        return (
            isinstance(operation, WriteFile)
            and operation.mode == "create"
            and operation.expected_hash is None
            and operation.within == "."
            and len(operation.content) <= self._max_new
            and not validation.is_notebook(operation.path)
            and self.files is not None
        )

    def is_free(self, path: str) -> bool:
        try:
            return self.files is not None and self.files.is_free(path)
        except (OSError, WapError):
            return False


def _asks(binding: BoundPolicy) -> bool:
    effective = binding.effective
    return effective.broken is not None or any(policy.confirmation_required for policy in effective.layers)


def _least(limit: int | None) -> int:
    return sys.maxsize if limit is None else limit
