"""Operations where nothing but the path has a say, in as few calls as they take.

Of a thousand operations nearly all are like that: no link is on the way, and the policy has nothing to ask but what the
guard is asked about every path anyway. Then the path as it is written is the path that is reached, which the kernel
itself makes sure of. Whatever is not plain is answered None and left to the pipeline in `pipeline.py`, from the
beginning.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TypeVar

from wap_kernel.files.at_once import MAX_SIZE
from wap_kernel.files.contained.linkless import Direct
from wap_kernel.files.contained.root import Root
from wap_kernel.files.interface import Stat
from wap_kernel.files.notebooks import validation
from wap_kernel.files.read import Whole, answered, read_whole
from wap_kernel.model.errors import WapError
from wap_kernel.model.operations import Operation, ReadFile, WriteFile
from wap_kernel.model.results import FileContent, Limits
from wap_kernel.policy.current import Binding

T = TypeVar("T")


class Plain:
    """What a binding leaves to plain operations."""

    def __init__(self, root: Root, binding: Binding, limits: Limits) -> None:
        effective = binding.effective
        self.files: Direct | None = None if _asks(binding) else root.direct(binding.guard)
        """None: nothing is plain."""
        self._max_read = limits.max_file_size
        self._max_size = _least(effective.max_file_size)
        self._max_new = min(self._max_size, _least(effective.max_edit_size), limits.max_write_size)

    def read(self, operation: ReadFile) -> Whole | None:
        return _read(self.files, operation, self._max_size, self._max_read, lambda whole, _: whole)

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


def answer_at_once(root: Root, binding: Binding, limits: Limits, operation: ReadFile) -> FileContent | None:
    """What a plain read answers, where nothing has to be waited for (see `at_once.py`)."""
    files = None if _asks(binding) else root.direct_at_once(binding.guard)
    largest = min(MAX_SIZE, _least(binding.effective.max_file_size))
    return _read(files, operation, largest, limits.max_file_size, lambda whole, stat: answered(whole, stat, root.path))


def _asks(binding: Binding) -> bool:
    effective = binding.effective
    return effective.broken is not None or any(policy.confirmation_required for policy in effective.layers)


def _read(
    files: Direct | None, operation: ReadFile, largest: int, limit: int, make: Callable[[Whole, Stat], T]
) -> T | None:
    if files is None or operation.within != ".":
        return None
    if operation.start_line is not None or operation.end_line is not None:
        return None
    try:
        file = files.open(operation.path)
        if file is None:
            return None
        with file:
            if file.stat.size > largest:
                return None
            return make(read_whole(file, operation.encoding, operation.max_size or limit), file.stat)
    except (OSError, WapError, UnicodeEncodeError):  # the last: no file has such a name
        return None


def _least(limit: int | None) -> int:
    return sys.maxsize if limit is None else limit
