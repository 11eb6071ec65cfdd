"""Preview a change to a file that the caller may not read: only the caller's own content is shown."""

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


def preview_change(path: str, operation: Operation) -> dict[str, Any]:
    """Render the preview in the form of `preview_diff.difference`."""
    if isinstance(operation, ModifyFile):
        text = "\n".join(line for edit in operation.edits for line in _render_edit(edit))
        is_truncated = len(text) > MAX_DIFF_CHARACTERS
        preview = {"diff": text[:MAX_DIFF_CHARACTERS], **({"isDiffTruncated": True} if is_truncated else {})}
        return {**preview, "note": HIDDEN}
    if not isinstance(operation, WriteFile):
        return {"note": HIDDEN}
    effect = "is added at its end" if operation.mode == "append" else "takes its place"
    if b"\0" in operation.content:
        return {"note": f"{HIDDEN} {operation.content_size} bytes, binary: this {effect}."}
    text, is_truncated = unified_diff.render_diff(path, b"", operation.content)
    preview = {"diff": text, **({"isDiffTruncated": True} if is_truncated else {})}
    return {**preview, "note": f"{HIDDEN} {operation.content_size} bytes: this {effect}."}


def _render_edit(edit: Edit) -> Iterator[str]:
    fields = edit.model_dump(exclude_none=True)
    old = [line for name in _OLD for line in str(fields.pop(name, "")).splitlines()]
    new = [line for name in _NEW for line in str(fields.pop(name, "")).splitlines()]
    yield f"@@ {', '.join(f'{name} {value}' for name, value in fields.items())} @@"
    yield from (f"-{line}" for line in old)
    yield from (f"+{line}" for line in new)
