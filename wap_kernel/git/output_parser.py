"""Parse what git prints for programs: status, commits, trees. Pure; bytes in, values out.

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


def decode_text(data: bytes) -> str:
    """Decode a path or a line; bytes that are not UTF-8 become surrogates, as everywhere in the engine."""
    return data.decode("utf-8", "surrogateescape")


@dataclass(frozen=True)
class RawStatus:
    """A status as git prints it: complete, with paths from the top of the repository."""

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


def parse_status(data: bytes) -> RawStatus:
    """Parse the output of `git status --porcelain=v2 --branch -z`."""
    headers: dict[str, str] = {}
    staged: list[ChangedFile] = []
    changed: list[ChangedFile] = []
    untracked: list[str] = []
    conflicts: list[ChangedFile] = []
    records = iter(data.split(b"\0"))
    for record in map(decode_text, records):
        kind, _, rest = record.partition(" ")
        if kind == "#":
            name, _, value = rest.partition(" ")
            headers[name] = value
        elif kind in ("1", "2"):
            codes, *_, path = rest.split(" ", 7 if kind == "1" else 8)
            old = decode_text(next(records)) if kind == "2" else None
            _append_change(staged, codes[0], path, old)
            _append_change(changed, codes[1], path, old)
        elif kind == "u":
            codes, *_, path = rest.split(" ", 9)
            conflicts.append(ChangedFile(path, _CONFLICTS.get(codes, "unmerged")))
        elif kind == "?":
            untracked.append(rest)
    ahead, behind = _parse_counts(headers.get("branch.ab", ""))
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


def _append_change(changes: list[ChangedFile], code: str, path: str, old: str | None) -> None:
    if code != ".":
        changes.append(ChangedFile(path, KINDS.get(code, "modified"), old if code in "RC" else None))


def _parse_counts(text: str) -> tuple[int, int]:
    ahead, _, behind = text.partition(" ")
    return int(ahead.lstrip("+") or 0), int(behind.lstrip("-") or 0)


def parse_commits(data: bytes) -> Iterator[Commit]:
    """Parse the output of `git log -z` in COMMIT_FORMAT."""
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


def split_lines(data: bytes) -> list[str]:
    """Split at line feeds only: a ref's name may hold other characters that end a line for Python."""
    return [decode_text(row) for row in data.split(b"\n") if row]


def split_records(data: bytes) -> list[str]:
    """Split records that end with NUL."""
    return [decode_text(record) for record in data.split(b"\0") if record]
