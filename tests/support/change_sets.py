"""ChangeSets for tests: written by hand, or found by comparing a folder with a copy of it."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

from wap_kernel.model.changes import ABSENT, Change, ChangeKind, ChangeSet, FileImage, ImageKind
from wap_kernel.model.policy import Policy
from wap_kernel.policy.effective import EffectivePolicy
from wap_kernel.policy.effects.closure import list_ancestors
from wap_kernel.policy.effects.judge import EffectFacts, EffectJudgement, judge_changes
from wap_kernel.policy.paths.protected import ProtectedPaths

NOTHING_PROTECTED = ProtectedPaths(hidden=frozenset(), read_only=frozenset())
GIT = {
    **{"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1", "PATH": os.environ["PATH"], "LC_ALL": "C"},
    **{"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b"},
    **{"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "protocol.file.allow", "GIT_CONFIG_VALUE_0": "always"},
}


def image(kind: ImageKind = "file", size: int | None = None) -> FileImage:
    return FileImage(kind, mode=0o644, size=size)


def created(path: str, kind: ImageKind = "file", *, size: int | None = None) -> Change:
    return Change(path, ChangeKind.CREATED, ABSENT, image(kind, size))


def changed(path: str, before: ImageKind = "file", after: ImageKind = "file") -> Change:
    return Change(path, ChangeKind.CHANGED, image(before), image(after))


def deleted(path: str, kind: ImageKind = "file") -> Change:
    return Change(path, ChangeKind.DELETED, image(kind), ABSENT)


def moved(source: str, path: str) -> Change:
    return Change(path, ChangeKind.MOVED, ABSENT, image("folder"), source)


def change_set(*changes: Change) -> ChangeSet:
    return ChangeSet(tuple(sorted(changes, key=lambda change: change.path)))


def judge(
    changes: ChangeSet,
    *layers: Policy,
    before: Mapping[str, object] | tuple[str, ...] = (),
    contents: Mapping[str, bytes] | None = None,
    protected: ProtectedPaths = NOTHING_PROTECTED,
    unkept: tuple[str, ...] = (),
) -> EffectJudgement:
    """Judge changes of a workspace that held the paths `before`."""
    held = set(before) | {change.path for change in changes if change.before.kind != "absent"}
    held |= {change.source for change in changes if change.source is not None}
    held |= {folder for path in held for folder in list_ancestors(path)}
    facts = EffectFacts(
        protected=protected,
        read=lambda path: (contents or {}).get(path, b""),
        existed=lambda path: path in held,
        list_below=lambda folder: [path.removeprefix(f"{folder}/") for path in held if path.startswith(f"{folder}/")],
        root="/ws",
        unkept=unkept,
    )
    return judge_changes(changes, EffectivePolicy(layers), facts)


class ChangedFolder:
    """A folder, and a copy of it that commands change, as on a Layer."""

    def __init__(self, folder: Path) -> None:
        self.before = folder / "before"
        self.after = folder / "after"
        self.before.mkdir(parents=True)

    def prepare(self, *lines: str) -> None:
        """Run lines in the folder itself, and copy it."""
        _run(self.before, lines)
        shutil.copytree(self.before, self.after, symlinks=True)

    def run(self, *lines: str) -> None:
        """Run lines in the copy."""
        _run(self.after, lines)

    @property
    def changes(self) -> ChangeSet:
        before, after = _images(self.before), _images(self.after)
        found = []
        for path in sorted(before.keys() | after.keys()):
            old, new = before.get(path, ABSENT), after.get(path, ABSENT)
            if kind := self._compare(path, old, new):
                found.append(Change(path, kind, old, new))
        return ChangeSet(tuple(found))

    def _compare(self, path: str, old: FileImage, new: FileImage) -> ChangeKind | None:
        if old.kind == "absent":
            return ChangeKind.CREATED
        if new.kind == "absent":
            return ChangeKind.DELETED
        if (old.kind, old.target) != (new.kind, new.target):
            return ChangeKind.CHANGED
        if old.kind == "file" and (self.before / path).read_bytes() != (self.after / path).read_bytes():
            return ChangeKind.CHANGED
        return ChangeKind.MODE if old.mode != new.mode else None

    def judge(self, *layers: Policy, protected: ProtectedPaths = NOTHING_PROTECTED) -> EffectJudgement:
        facts = EffectFacts(
            protected=protected,
            read=lambda path: (self.after / path).read_bytes(),
            existed=lambda path: os.path.lexists(self.before / path),
            root=str(self.after),
        )
        return judge_changes(self.changes, EffectivePolicy(layers), facts)

    def apply(self, judgement: EffectJudgement, on_each: Callable[[Change], None] = lambda _: None) -> None:
        """Apply what is not refused to the folder, in the order in which that is possible."""
        applied = list(judgement.select_applied(self.changes))
        for change in sorted(applied, key=lambda change: change.path, reverse=True):
            target = self.before / change.path
            if change.before.kind != "absent" and change.kind is not ChangeKind.MODE:
                if change.before.kind != "folder":
                    target.unlink()
                elif change.after.kind != "folder":
                    target.rmdir()
        for change in applied:
            target, source = self.before / change.path, self.after / change.path
            if change.after.kind == "folder":
                target.mkdir(exist_ok=True)
            elif change.after.kind == "link":
                target.symlink_to(os.readlink(source))
            elif change.after.kind == "file":
                target.write_bytes(judgement.rewritten.get(change.path) or source.read_bytes())
                target.chmod(source.stat().st_mode & 0o777)
            on_each(change)


def _run(folder: Path, lines: tuple[str, ...]) -> None:
    for line in lines:
        subprocess.run(["bash", "-c", line], cwd=folder, env={**GIT, "HOME": str(folder)}, check=True, timeout=60)


def _images(folder: Path) -> dict[str, FileImage]:
    found = {}
    for parent, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = os.path.join(parent, name)
            status = os.lstat(path)
            kinds: dict[int, ImageKind] = {stat.S_IFREG: "file", stat.S_IFDIR: "folder", stat.S_IFLNK: "link"}
            kind = kinds.get(stat.S_IFMT(status.st_mode), "special")
            target = os.readlink(path) if kind == "link" else None
            size = status.st_size if kind == "file" else None
            found[os.path.relpath(path, folder)] = FileImage(kind, stat.S_IMODE(status.st_mode), size, target)
    return found
