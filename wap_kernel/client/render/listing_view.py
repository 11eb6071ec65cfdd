"""Render a listing as a tree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from wap_kernel.client.render import units
from wap_kernel.client.render.blocks import Block, Header, Pre, Room, Span, TextLine, code_spans, muted_row


class _Entry(NamedTuple):
    name: str
    is_folder: bool
    size: str
    is_link: bool


def listing_blocks(data: Mapping[str, Any], request: Mapping[str, Any], room: Room, prefix: str) -> list[Block]:
    entries = data["files"]
    total = data.get("totalFound", len(entries))
    facts = [_count_entries(entries)] if total == len(entries) else [f"{len(entries):,} of {total:,} entries"]
    head = Header("plain", "", code_spans(request.get("path", ".")), tuple(facts))
    listed = entries[: 5 * room.rows]
    lines = _draw(_build_tree(listed, str(request.get("path", "."))), room.characters)
    blocks: list[Block] = [head, Pre(tuple(lines), bar="")] if lines else [head, muted_row("empty")]
    left = total - min(len(listed), len(lines))
    if left > 0:
        blocks.append(muted_row(f"… {left:,} more; name a folder to see what is in it"))
    return blocks


def _count_entries(entries: Sequence[Mapping[str, Any]]) -> str:
    folders = sum(1 for entry in entries if entry.get("isDirectory"))
    files = len(entries) - folders
    counts = [units.format_count(folders, "folder")] if folders else []
    return ", ".join([*counts, units.format_count(files, "file")] if files or not folders else counts)


_Tree = list[tuple[int, _Entry]]


def _build_tree(entries: Sequence[Mapping[str, Any]], base: str) -> _Tree:
    """Return the depth and the entry of each line, sorted by path; a folder that is not listed gets a line, too."""
    prefix = "" if base in (".", "", "/") else base.rstrip("/") + "/"
    tree: _Tree = []
    above: list[str] = []
    for entry in sorted(entries, key=lambda one: str(one["path"]).split("/")):
        names = str(entry["path"]).removeprefix(prefix).split("/")
        shared = 0
        while shared < min(len(above), len(names) - 1) and above[shared] == names[shared]:
            shared += 1
        for depth in range(shared, len(names) - 1):
            tree.append((depth, _Entry(names[depth], True, "", False)))
        metadata = entry.get("metadata") or {}
        is_folder = bool(entry.get("isDirectory"))
        size = units.format_size(metadata["size"]) if "size" in metadata and not is_folder else ""
        tree.append((len(names) - 1, _Entry(names[-1], is_folder, size, bool(entry.get("isSymlink")))))
        above = names if is_folder else names[:-1]
    return tree


def _draw(tree: _Tree, characters: int) -> list[TextLine]:
    lasts = _find_lasts(tree)
    names = [_format_name(entry) for _, entry in tree]
    width = min(max((2 * depth + len(name) for (depth, _), name in zip(tree, names, strict=True)), default=0), 60)
    lines: list[TextLine] = []
    open_: list[bool] = []
    for (depth, entry), name, is_last in zip(tree, names, lasts, strict=True):
        branches = "".join("│ " if goes_on else "  " for goes_on in open_[:depth])
        open_[depth:] = [not is_last]
        characters -= 2 * depth + len(name) + 20
        if characters < 0:
            break
        spans = [
            Span(f"{branches}{'└ ' if is_last else '├ '}", "muted"),
            Span(name, "strong" if entry.is_folder else ""),
        ]
        if entry.size:
            spans.append(Span(" " * max(width - 2 * depth - len(name), 0) + f"  {entry.size:>9}", "muted"))
        lines.append(TextLine(tuple(spans)))
    return lines


def _format_name(entry: _Entry) -> str:
    """Return the name of an entry on one line, so that the sizes align."""
    return units.escape_one_line(entry.name) + ("/" if entry.is_folder else "") + (" (link)" if entry.is_link else "")


def _find_lasts(tree: _Tree) -> list[bool]:
    """Return for each line whether its entry is the last in its folder."""
    lasts = [False] * len(tree)
    seen: list[bool] = []
    for index in range(len(tree) - 1, -1, -1):
        depth = tree[index][0]
        seen[depth + 1 :] = []
        seen += [False] * (depth + 1 - len(seen))
        lasts[index], seen[depth] = not seen[depth], True
    return lasts
