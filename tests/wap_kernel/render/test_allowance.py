"""What several answers in one cell may take together."""

from __future__ import annotations

import json

from wap_kernel.client.answers import FileText, Note
from wap_kernel.render import LARGEST, Allowance


def _file(size: int) -> FileText:
    content = ("a line of text\n" * size)[:size]
    data = {"content": content, "metadata": {"size": size}, "totalLines": size // 15, "returnedLines": size // 15}
    return FileText({**data, "hash": "sha256:0", "isTruncated": False, "encoding": "utf-8"}, path="a.txt", first_line=1)


def test_all_of_a_cell_is_within_it() -> None:
    allowance = Allowance()
    shown = [allowance.bundle(_file(60_000)) for _ in range(5)]
    assert sum(len(json.dumps(one)) for one in shown) <= LARGEST
    assert "a line of text" in shown[0]["text/html"]
    assert "not shown" in shown[-2]["text/plain"] or "not shown" in shown[-1]["text/plain"]
    assert allowance.bundle(_file(10)) == {"text/plain": ""}


def test_small_answers_all_fit() -> None:
    allowance = Allowance()
    shown = [allowance.bundle(Note({"text": f"number {number}"})) for number in range(50)]
    assert all(f"number {number}" in one["text/plain"] for number, one in enumerate(shown))
