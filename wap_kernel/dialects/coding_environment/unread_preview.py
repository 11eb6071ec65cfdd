"""What a caller brings to a file that it may not read: that much can be shown to whoever is asked, and no more."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from wap_kernel.files.edit import unified_diff
from wap_kernel.model.edits import Edit
from wap_kernel.model.limits import MAX_DIFF_CHARACTERS
from wap_kernel.model.operations import ModifyFile, Operation, WriteFile

HIDDEN = "What stands there now is not shown: the caller may not read it."
_OLD = ("old_content", "pattern")
_NEW = ("new_content", "replacement", "source")


def shown(path: str, operation: Operation) -> dict[str, Any]:
    """As `runs.differences` has it."""
    if isinstance(operation, ModifyFile):
        text = "\n".join(line for change in operation.edits for line in _edit(change))
        is_cut = len(text) > MAX_DIFF_CHARACTERS
        told = {"diff": text[:MAX_DIFF_CHARACTERS], **({"isDiffTruncated": True} if is_cut else {})}
        return {**told, "note": HIDDEN}
    if not isinstance(operation, WriteFile):
        return {"note": HIDDEN}
    what = "is added at its end" if operation.mode == "append" else "takes its place"
    if b"\0" in operation.content:
        return {"note": f"{HIDDEN} {operation.content_size} bytes, binary: this {what}."}
    text, is_cut = unified_diff.unified(path, b"", operation.content)
    told = {"diff": text, **({"isDiffTruncated": True} if is_cut else {})}
    return {**told, "note": f"{HIDDEN} {operation.content_size} bytes: this {what}."}


def _edit(change: Edit) -> Iterator[str]:
    fields = change.model_dump(exclude_none=True)
    old = [line for name in _OLD for line in str(fields.pop(name, "")).splitlines()]
    new = [line for name in _NEW for line in str(fields.pop(name, "")).splitlines()]
    yield f"@@ {', '.join(f'{name} {value}' for name, value in fields.items())} @@"
    yield from (f"-{line}" for line in old)
    yield from (f"+{line}" for line in new)
