"""Say in one line what a command changes, from the changes that an approval or an event lists. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

CHANGE_VERBS: Mapping[str, str] = {
    "deleted": "deletes",
    "changed": "changes",
    "created": "creates",
    "moved": "moves",
    "mode": "changes the mode of",
}
"""The verb of each kind of change, in the order in which a person reads them."""
_NOUNS = {"file": "file", "folder": "folder", "link": "link"}
NOTHING = "changes nothing"


def summarize_changes(changes: Iterable[Mapping[str, Any]], counts: Mapping[str, int] | None = None) -> str:
    """Return the changes in one line, such as `deletes 12 files and 1 folder, changes 3 files`.

    `counts` are the numbers of all changes by kind, where `changes` are only some of them.
    """
    if counts is None:
        kinds = Counter((str(one.get("change")), str(one.get("kind", "file"))) for one in changes)
        parts = {name: _count_kinds(kinds, name) for name in CHANGE_VERBS}
    else:
        parts = {name: _count(counts.get(name, 0), "path") for name in CHANGE_VERBS}
    return ", ".join(f"{CHANGE_VERBS[name]} {part}" for name, part in parts.items() if part) or NOTHING


def summarize_effect(effect: Mapping[str, Any]) -> str:
    """Return what a command that has run on its layer would change, in one line."""
    return summarize_changes(effect.get("changes", ()), effect.get("counts") if effect.get("more") else None)


def _count_kinds(kinds: Mapping[tuple[str, str], int], change: str) -> str:
    nouns: Counter[str] = Counter()
    for (name, kind), count in kinds.items():
        if name == change:
            nouns[_NOUNS.get(kind, "path")] += count
    return " and ".join(_count(nouns[noun], noun) for noun in (*_NOUNS.values(), "path") if nouns[noun])


def _count(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}" if count else ""
