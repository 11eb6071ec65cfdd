"""Render an answer of git: its outcome, commits, branches, changed files and diffs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from wap_kernel.client.render import file_view, units
from wap_kernel.client.render.blocks import (
    Block,
    Fields,
    Header,
    Room,
    Row,
    Span,
    code_spans,
    muted_row,
    preformatted,
    python_hint,
    text_spans,
)

Data = Mapping[str, Any]

ROOT_ALIAS = "/workspace/"
"""The beginning of the paths in an answer."""
_LISTS = ("changed", "untracked", "conflicts", "paths", "names")
_DIFFS = ("diff", "staged", "unstaged")
_HIDDEN = ("action", "exit_code", "stderr", "message", "reason", "content")


def git_blocks(data: Data, request: Data, room: Room, prefix: str) -> list[Block]:
    is_ok = data.get("exit_code") == 0
    word = "done" if is_ok else "failed"
    facts = () if is_ok else (f"exit {data.get('exit_code')}",)
    blocks: list[Block] = [
        Header("ok" if is_ok else "failed", word, text_spans(f"git {data.get('action', '')}"), facts)
    ]
    if data.get("message"):
        blocks.append(Row(text_spans(units.truncate_line(str(data["message"])))))
    if not is_ok and data.get("stderr"):
        blocks.append(
            preformatted(units.take_head(str(data["stderr"]), room.characters // 2, room.lines).text, bar="!")
        )
    fields = tuple(_fields(data))
    blocks += [Fields(fields)] if fields else []
    rows = [*_named_rows(data), *_commit_rows(data.get("commits") or ()), *_branch_rows(data.get("branches") or ())]
    blocks += rows[: room.rows]
    if len(rows) > room.rows:
        blocks.append(muted_row(f"… {len(rows) - room.rows:,} more{python_hint(prefix, '_.to_dict() holds them')}"))
    for name in _DIFFS:
        if isinstance(diff := data.get(name), Mapping):
            blocks += _diff_blocks(name, diff, room)
    if isinstance(content := data.get("content"), str):
        blocks.append(preformatted(units.take_head(content, room.characters // 2, room.lines).text))
    return blocks


def _fields(data: Data) -> Iterator[tuple[str, tuple[Span, ...]]]:
    """Yield the scalar fields of the answer, and the subject of its commit."""
    for name, value in data.items():
        if isinstance(value, Mapping) and "subject" in value:
            subject = units.truncate_line(str(value["subject"]))
            yield name, (*code_spans(str(value.get("id", ""))[:10]), Span(f" {subject}"))
        elif name not in _HIDDEN and isinstance(value, str | int) and not isinstance(value, bool):
            yield name.replace("_", " "), text_spans(units.truncate_line(str(value)))


def _named_rows(data: Data) -> list[Block]:
    """Return a row for each path of the answer's lists."""
    rows: list[Block] = []
    staged = data.get("staged")
    lists = [("staged", staged if isinstance(staged, list) else [])]
    for name, listed in [*lists, *((name, data.get(name) or []) for name in _LISTS)]:
        for one in listed:
            is_change = isinstance(one, Mapping)
            path = str(one.get("path", "")) if is_change else str(one)
            kind = f" {one.get('kind', '')}" if is_change else ""
            rows.append(Row((Span(f"{name}{kind} "), Span(_name_path(path), "code"))))
    return rows


def _commit_rows(commits: Sequence[Data]) -> list[Block]:
    return [
        Row(
            (Span(str(one.get("id", ""))[:10], "code"), Span(f" {units.truncate_line(str(one.get('subject', '')))}")),
            facts=(str((one.get("author") or {}).get("name", "")), units.format_time(one.get("authored_at"))),
        )
        for one in commits
    ]


def _branch_rows(branches: Sequence[Data]) -> list[Block]:
    return [
        Row(
            (Span("* " if one.get("current") else "  "), Span(units.truncate_line(str(one.get("name", ""))), "code")),
            facts=(str(one.get("commit", ""))[:10],),
        )
        for one in branches
    ]


def _diff_blocks(name: str, diff: Data, room: Room) -> list[Block]:
    files: Sequence[Data] = (diff.get("files") or ())[: room.rows]
    patches = [_hunks(str(one.get("patch", ""))) for one in files]
    shares = Room(room.characters // 2, room.rows, room.lines).share([units.text_cost(patch) for patch in patches])
    blocks: list[Block] = []
    for one, patch, share in zip(files, patches, shares, strict=True):
        counts = (f"+{one['added']} −{one['deleted']}",) if "added" in one and "deleted" in one else ()  # noqa: RUF001
        label = "" if name == "diff" else f"{name} "
        blocks.append(Row((Span(label), Span(_name_path(one.get("path", "")), "code")), facts=counts))
        blocks += file_view.diff_blocks(patch, share, room.lines)
    return blocks


def _hunks(patch: str) -> str:
    """Return a patch without the lines that name its file, which the row above has."""
    start = patch.find("\n@@ ")
    return patch if start < 0 else patch[start + 1 :]


def _name_path(path: object) -> str:
    return units.truncate_line(str(path).removeprefix(ROOT_ALIAS))
