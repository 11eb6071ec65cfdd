"""What runs should do, in the simplest way that can be said: files are a dict, a run is a list of what it changed.

A tree maps paths to contents; None is a folder.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

Tree = dict[str, str | None]
Operation = dict[str, Any]
Event = tuple[str, bool | None]
"""Its type, and whether it says success; None where it says nothing of that."""


@dataclass
class Change:
    before: Any
    after: Any
    is_broken: bool = False


ABSENT = object()


@dataclass
class ModelRun:
    operations: list[Operation]
    atomic: bool = False
    status: str = "running"
    position: int = 0
    events: list[Event] = field(default_factory=list)
    changes: dict[str, Change] = field(default_factory=dict)
    is_unknown: bool = False
    """Whether it changed more than is known."""

    @property
    def net(self) -> dict[str, Change]:
        """Without what is as it was in the end."""
        return {path: change for path, change in self.changes.items() if change.before != change.after}

    @property
    def is_final(self) -> bool:
        return self.status not in ("running", "awaiting_approval")


class Model:
    def __init__(self) -> None:
        self.tree: Tree = {}
        self.runs: dict[str, ModelRun] = {}

    # -- what happens to a run

    def go(self, run: ModelRun, *, approved: bool = False) -> None:
        """On from where it is, until it ends or asks."""
        while run.position < len(run.operations):
            operation = run.operations[run.position]
            if asks(operation) and not approved:
                run.events.append(("approvalRequired", None))
                run.status = "awaiting_approval"
                return
            approved = False
            run.position += 1
            success = self._perform(run, operation)
            run.events.append((operation["type"], success))
            if run.atomic and not success:
                self._undo(run, "error")
                return
        run.status = "completed"

    def deny(self, run: ModelRun) -> None:
        run.events.append(("policyDenied", None))
        run.position += 1
        if run.atomic:
            self._undo(run, "error")
        else:
            self.go(run)

    def cancel(self, run: ModelRun) -> None:
        """While it waits."""
        run.events.append(("policyDenied", None))
        run.status = "cancelled"
        if run.atomic:
            self._undo(run, "cancelled")

    def crash(self, run: ModelRun) -> None:
        """Of the process, when all is done and nobody has said so yet."""
        if run.atomic:
            run.events.append(("error", None))
            self._undo(run, "error")

    def cut(self, run: ModelRun, status: str) -> None:
        """In the middle of its command, which has done what it does at once."""
        self._perform(run, run.operations[0])
        run.events.append((run.operations[0]["type"], False))
        if status == "error":
            run.events.append(("error", None))
        run.status = status

    def kill(self, run: ModelRun) -> None:
        """In the middle of its command: nobody knows what it has done."""
        self._perform(run, run.operations[0])
        run.changes.clear()
        run.events.append(("error", None))
        run.status, run.is_unknown = "error", True

    def _undo(self, run: ModelRun, status: str) -> None:
        """All that an atomic run changed, but for what others have changed since or use."""
        run.events.append(("error", None))
        run.status = status
        left, there = self.conflicts(run), set(self.tree)
        undone = {path: change for path, change in run.net.items() if path not in left}
        self._put_back(undone)
        for path, change in undone.items():
            if self.tree.get(path, ABSENT) == change.before:
                del run.changes[path]
        for folder in self.tree.keys() - there - undone.keys():
            self._add(run, folder, ABSENT, None)

    def conflicts(self, run: ModelRun) -> set[str]:
        """Where something would be lost by a revert."""
        if run.is_unknown:
            return {"."}
        return {path for path, change in run.net.items() if self._is_lost(path, change)}

    def _is_lost(self, path: str, change: Change) -> bool:
        now = self.tree.get(path, ABSENT)
        return now != change.before and (change.is_broken or now != change.after)

    def revert(self, run: ModelRun) -> ModelRun:
        before = dict(self.tree)
        self._put_back(run.net)
        made = ModelRun([], status="completed")
        self._record(made, before)
        return made

    def _put_back(self, net: dict[str, Change]) -> None:
        for path in sorted(net):
            if net[path].before is not ABSENT:
                self._put(path, net[path].before)
        for path in sorted(net, reverse=True):
            if net[path].before is ABSENT and not self._below(path):
                self.tree.pop(path, None)

    # -- operations

    def _perform(self, run: ModelRun, operation: Operation) -> bool:
        before = dict(self.tree)
        success = getattr(self, f"_{operation['type']}")(operation)
        self._record(run, before)
        return bool(success)

    def _record(self, run: ModelRun, before: Tree) -> None:
        for path in {*before, *self.tree}:
            old, new = before.get(path, ABSENT), self.tree.get(path, ABSENT)
            if old != new:
                self._add(run, path, old, new)

    def _add(self, run: ModelRun, path: str, old: Any, new: Any) -> None:
        first = run.changes.get(path)
        if first is None:
            run.changes[path] = Change(old, new)
        else:
            run.changes[path] = Change(first.before, new, first.is_broken or first.after != old)

    def _message(self, _: Operation) -> bool:
        return True

    def _createFile(self, operation: Operation) -> bool:
        if operation["path"] in self.tree and not operation["overwrite"]:
            return False
        self._put(operation["path"], operation["content"])
        return True

    def _readFile(self, operation: Operation) -> bool:
        return operation["path"] in self.tree

    def _editFile(self, operation: Operation) -> bool:
        text = self.tree.get(operation["path"])
        (edit,) = operation["edits"]
        if text is None or edit["oldContent"] not in text:
            return False
        self.tree[operation["path"]] = text.replace(edit["oldContent"], edit["newContent"], 1)
        return True

    def _deleteFile(self, operation: Operation) -> bool:
        return self.tree.pop(operation["path"], None) is not None

    def _shell(self, operation: Operation) -> bool:
        verb, *names = operation["command"].split()
        return bool(getattr(self, f"_{_VERBS[verb]}")(*names))

    def _write(self, text: str, _: str, path: str, *__: str) -> bool:
        if not self._has_parent(path):
            return False
        self.tree[path] = text
        return True

    def _move(self, source: str, destination: str) -> bool:
        if source not in self.tree or not self._has_parent(destination):
            return False
        self.tree[destination] = self.tree.pop(source)
        return True

    def _mkdir(self, _: str, path: str) -> bool:
        self._put(posixpath.join(path, "x"), "")
        del self.tree[posixpath.join(path, "x")]
        return True

    def _remove(self, _: str, folder: str) -> bool:
        for path in self._below(folder):
            del self.tree[path]
        self.tree.pop(folder, None)
        return True

    def _fail(self) -> bool:
        return False

    # -- the tree

    def _put(self, path: str, content: str | None) -> None:
        for parent in _parents(path):
            self.tree.setdefault(parent, None)
        self.tree[path] = content

    def _has_parent(self, path: str) -> bool:
        parent = posixpath.dirname(path)
        return not parent or parent in self.tree

    def _below(self, folder: str) -> list[str]:
        return [path for path in self.tree if path.startswith(f"{folder}/")]


_VERBS = {"printf": "write", "mv": "move", "mkdir": "mkdir", "rm": "remove", "false": "fail"}


def asks(operation: Operation) -> bool:
    return operation["type"] == "shell" and operation["command"].startswith("rm -rf")


def _parents(path: str) -> Iterable[str]:
    parts = path.split("/")[:-1]
    return ("/".join(parts[: number + 1]) for number in range(len(parts)))
