"""Reads what git prints for programs: status, commits, trees. Pure; bytes in, values out.

Everything is separated by NUL, the one byte that no path and no message can hold.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from wap_kernel.model.git.results import ChangedFile, Commit, Person

KINDS = {
    "A": "added",
    "M": "modified",
    "D": "deleted",
    "R": "renamed",
    "C": "copied",
    "T": "type-changed",
    "U": "unmerged",
}
_CONFLICTS = {
    "DD": "both-deleted",
    "AU": "added-by-us",
    "UD": "deleted-by-them",
    "UA": "added-by-them",
    "DU": "deleted-by-us",
    "AA": "both-added",
    "UU": "both-modified",
}
COMMIT_FORMAT = "%H%x00%P%x00%an%x00%ae%x00%aI%x00%cn%x00%ce%x00%cI%x00%s%x00%b"
_COMMIT_FIELDS = 10


def text(data: bytes) -> str:
    """A path or a line. Bytes that are not UTF-8 are kept, as everywhere in the engine."""
    return data.decode("utf-8", "surrogateescape")


@dataclass(frozen=True)
class RawStatus:
    """As git says it: nothing left out, paths from the top of the repository."""

    branch: str | None
    commit: str | None
    upstream: str | None
    ahead: int
    behind: int
    staged: tuple[ChangedFile, ...]
    changed: tuple[ChangedFile, ...]
    untracked: tuple[str, ...]
    conflicts: tuple[ChangedFile, ...]

    @property
    def paths(self) -> frozenset[str]:
        changes = (*self.staged, *self.changed, *self.conflicts)
        named = {name for change in changes for name in (change.path, change.old_path) if name is not None}
        return frozenset((*named, *self.untracked))


def status(data: bytes) -> RawStatus:
    """`git status --porcelain=v2 --branch -z`."""
    headers: dict[str, str] = {}
    staged: list[ChangedFile] = []
    changed: list[ChangedFile] = []
    untracked: list[str] = []
    conflicts: list[ChangedFile] = []
    records = iter(data.split(b"\0"))
    for record in map(text, records):
        kind, _, rest = record.partition(" ")
        if kind == "#":
            name, _, value = rest.partition(" ")
            headers[name] = value
        elif kind in ("1", "2"):
            codes, *_, path = rest.split(" ", 7 if kind == "1" else 8)
            old = text(next(records)) if kind == "2" else None
            _note(staged, codes[0], path, old)
            _note(changed, codes[1], path, old)
        elif kind == "u":
            codes, *_, path = rest.split(" ", 9)
            conflicts.append(ChangedFile(path, _CONFLICTS.get(codes, "unmerged")))
        elif kind == "?":
            untracked.append(rest)
    ahead, behind = _counts(headers.get("branch.ab", ""))
    head, commit = headers.get("branch.head"), headers.get("branch.oid")
    return RawStatus(
        branch=None if head == "(detached)" else head,
        commit=None if commit == "(initial)" else commit,
        upstream=headers.get("branch.upstream"),
        ahead=ahead,
        behind=behind,
        staged=tuple(staged),
        changed=tuple(changed),
        untracked=tuple(untracked),
        conflicts=tuple(conflicts),
    )


def _note(changes: list[ChangedFile], code: str, path: str, old: str | None) -> None:
    if code != ".":
        changes.append(ChangedFile(path, KINDS.get(code, "modified"), old if code in "RC" else None))


def _counts(said: str) -> tuple[int, int]:
    ahead, _, behind = said.partition(" ")
    return int(ahead.lstrip("+") or 0), int(behind.lstrip("-") or 0)


def commits(data: bytes) -> Iterator[Commit]:
    """`git log -z` in COMMIT_FORMAT."""
    fields = data.decode("utf-8", "replace").split("\0")
    for start in range(0, len(fields) - _COMMIT_FIELDS + 1, _COMMIT_FIELDS):
        identifier, parents, name, email, at, committer, its_email, its_time, subject, body = fields[
            start : start + _COMMIT_FIELDS
        ]
        yield Commit(
            id=identifier,
            parents=tuple(parents.split()),
            author=Person(name, email),
            authored_at=at,
            committer=Person(committer, its_email),
            committed_at=its_time,
            subject=subject,
            body=body.strip("\n"),
        )


def rows(data: bytes) -> list[str]:
    """Lines. No ref's name holds an end of line, but one may hold what else Python takes for the end of a line."""
    return [text(row) for row in data.split(b"\n") if row]


def lines(data: bytes) -> list[str]:
    """Records that end with NUL."""
    return [text(record) for record in data.split(b"\0") if record]
