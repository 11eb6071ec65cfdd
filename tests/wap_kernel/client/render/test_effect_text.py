"""What a command changes, in one line."""

from __future__ import annotations

from typing import Any

import pytest

from wap_kernel.client.render.effect_text import summarize_changes, summarize_effect


def change(name: str, **more: Any) -> dict[str, Any]:
    return {"path": "a", "change": name, **more}


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ([], "changes nothing"),
        ([change("deleted")] * 12 + [change("changed")] * 3, "deletes 12 files, changes 3 files"),
        ([change("deleted"), change("deleted", kind="folder")], "deletes 1 file and 1 folder"),
        ([change("created", kind="link"), change("created")], "creates 1 file and 1 link"),
        ([change("moved", kind="folder"), change("mode")], "moves 1 folder, changes the mode of 1 file"),
        ([change("deleted", kind="special")], "deletes 1 path"),
        ([change("created")] * 1_200, "creates 1,200 files"),
    ],
)
def test_what_is_lost_comes_first(changes: list[dict[str, Any]], text: str) -> None:
    assert summarize_changes(changes) == text
    assert summarize_changes(list(reversed(changes))) == text


def test_a_list_that_is_cut_is_counted_whole() -> None:
    effect = {"changes": [change("deleted")], "counts": {"deleted": 5_200, "changed": 1}, "more": 5_200}
    assert summarize_effect(effect) == "deletes 5,200 paths, changes 1 path"
    assert summarize_effect({**effect, "more": None}) == "deletes 1 file"
