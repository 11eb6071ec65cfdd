"""What runs should do, in the simplest way that can be said: files are a dict, a run is a list of what it changed.

A tree maps paths to contents; None is a folder. Every write gives a path a new version, also with the same content: a
revert is refused where a version is another. An atomic run works on a draft, which is applied at its end.

Where others have changed what a run changes as well, the model does not say how it ends: it accepts an end in which
nothing else has changed, and goes on from there.
"""

from __future__ import annotations

import itertools
import posixpath
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

Tree = dict[str, str | None]
Operation = dict[str, Any]
Event = tuple[str, bool | None]
"""Its type, and whether it says success; None where it says nothing of that."""


class _Absent:
    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Any = _Absent()


@dataclass
class Change:
    """What a run made of a path: the content and the version before and after."""

    before: tuple[Any, int]
    after: tuple[Any, int]


@dataclass
class ModelRun:
    operations: list[Operation]
    atomic: bool = False
    status: str = "running"
    position: int = 0
    events: list[Event] = field(default_factory=list)
    changes: dict[str, Change] = field(default_factory=dict)
    draft: dict[str, Any] = field(default_factory=dict)
    """What an atomic run has changed so far; a path that is ABSENT hides all below."""
    since: set[str] = field(default_factory=set)
    """Paths that others have changed since the layer of the run began."""
    is_free: bool = False
    """Whether others have changed what it changes: then the model follows it."""
    is_waiting_to_apply: bool = False
    """Whether it was cancelled with changes in its layer."""

    @property
    def is_final(self) -> bool:
        return self.status not in ("running", "awaiting_approval")


class Draft(dict[str, "str | None"]):
    """A tree that knows what was written or removed."""

    def __init__(self, tree: Mapping[str, str | None]) -> None:
        super().__init__(tree)
        self.written: list[str] = []

    def put(self, path: str, content: str | None) -> None:
        for parent in _parents(path):
            if parent not in self:
                self[parent] = None
                self.written.append(parent)
        self.write(path, content)

    def write(self, path: str, content: str | None) -> None:
        self[path] = content
        self.written.append(path)

    def remove(self, path: str) -> None:
        for each in [*_below(self, path), path]:
            if self.pop(each, ABSENT) is not ABSENT:
                self.written.append(each)


class Model:
    def __init__(self) -> None:
        self.tree: Tree = {}
        self.versions: dict[str, int] = {}
        self.runs: dict[str, ModelRun] = {}
        self._numbers = itertools.count(1)

    # -- what happens to a run

    def go(self, run: ModelRun, *, approved: bool = False) -> None:
        """On from where it is, until it ends or asks."""
        while run.position < len(run.operations):
            operation = run.operations[run.position]
            if asks(operation) and not approved:
                run.events.append(("approvalRequired", None))
                run.status = "awaiting_approval"
                if run.atomic:
                    self._perform(run, operation)  # on its layer, where the person sees it
                else:
                    run.since.clear()
                return
            has_run = approved and run.atomic
            success = has_run or self._perform(run, operation)
            approved = False
            run.position += 1
            run.events.append((operation["type"], success))
            if run.atomic and not success:
                self._undo(run, "error")
                return
        if run.atomic:
            self._apply(run)
        run.status = "completed"

    def approve(self, run: ModelRun) -> bool:
        """Go on after a yes; return False if the model does not know how."""
        command = run.operations[run.position]["command"].split()
        is_known = not run.is_free and not _overlap(run.since, _footprint(run) if run.atomic else command[2:])
        self._saved = dict(self.tree), dict(self.versions), dict(run.changes)
        self.go(run, approved=True)
        return is_known

    def follow(self, run: ModelRun, message: Mapping[str, Any], tree: Tree) -> None:
        """Take over how a run went on that met changes of others."""
        self.tree, self.versions, run.changes = self._saved
        run.is_free = True
        run.status = message["status"]
        run.events = [(event["type"], event.get("success")) for event in message["events"]]
        if not run.is_final:
            names = [f"op-{number}" for number in range(1, len(run.operations) + 1)]
            run.position = names.index(message["pendingApproval"]["operationId"])
        if run.atomic and run.status != "completed":
            assert tree == self.tree, "an atomic run is applied in part"
        self.take_over(run, tree)

    def take_over(self, run: ModelRun, tree: Tree, reverted: Iterable[str] = ()) -> None:
        """Take over what a run made of the tree, or of the paths that it reverted."""
        changed = {path for path in {*tree, *self.tree} if tree.get(path, ABSENT) != self.tree.get(path, ABSENT)}
        named = {name for operation in run.operations for name in _names(operation)} | set(reverted)
        assert all(_overlap({path}, named) for path in changed), f"it changed what it does not name: {changed}"
        for path in changed:
            self._record(run, path, tree.get(path, ABSENT))

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
        """Of the process, when all is done and nobody has said so yet: what was applied stays."""
        if run.atomic and not run.changes:
            run.events += [("error", None), ("error", None)]
            run.status = "error"

    def cut(self, run: ModelRun, how: str) -> None:
        """In the middle of its command: nothing of it is applied."""
        draft = Draft(self.tree)
        _act(draft, run.operations[0])
        run.is_waiting_to_apply = how == "cancelled" and bool(draft.written)
        if how != "killed":
            run.events.append((run.operations[0]["type"], False))
        if how != "cancelled":
            run.events.append(("error", None))
        run.status = "cancelled" if how == "cancelled" else "error"

    def apply_left(self, run: ModelRun) -> ModelRun:
        """What a cancelled command had written, over what is there now."""
        applied = ModelRun([], status="completed")
        self._perform(applied, run.operations[0])
        run.is_waiting_to_apply = False
        return applied

    def _undo(self, run: ModelRun, status: str) -> None:
        """All that an atomic run changed, which is its layer."""
        run.events.append(("error", None))
        run.status = status
        run.draft.clear()

    # -- reverts

    def is_clean(self, run: ModelRun) -> bool:
        """Whether nobody has changed anything since of what the run changed, or put anything into its folders."""
        restored = {path for path, change in run.changes.items() if change.before[0] is not ABSENT}
        for path, change in run.changes.items():
            if (self.tree.get(path, ABSENT), self.versions.get(path, 0)) != change.after:
                return False
            if change.before[0] is ABSENT and any(below not in run.changes for below in _below(self.tree, path)):
                return False
            if path in restored and any(each not in self.tree and each not in restored for each in _parents(path)):
                return False
        return True

    def revert(self, run: ModelRun) -> ModelRun:
        """Every path and its version as before."""
        made = ModelRun([], status="completed")
        for path, change in run.changes.items():
            self._record(made, path, *change.before)
        return made

    # -- operations

    def perform(self, operation: Operation) -> tuple[ModelRun, bool]:
        """A single call, and whether it succeeds."""
        run = ModelRun([], status="completed")
        return run, self._perform(run, operation)

    def view(self, run: ModelRun) -> Tree:
        """The files that a run sees."""
        gone = [path for path, content in run.draft.items() if content is ABSENT]
        seen = {path: content for path, content in self.tree.items() if not any(_is_at(path, each) for each in gone)}
        return {**seen, **{path: content for path, content in run.draft.items() if content is not ABSENT}}

    def _perform(self, run: ModelRun, operation: Operation) -> bool:
        draft = Draft(self.view(run))
        success = _act(draft, operation)
        for path in dict.fromkeys(draft.written):
            content = draft.get(path, ABSENT)
            if not run.atomic:
                self._record(run, path, content)
            elif content is ABSENT and path not in self.tree:
                run.draft.pop(path, None)
            else:
                run.draft[path] = content
        return success

    def _apply(self, run: ModelRun) -> None:
        for path, content in run.draft.items():
            self._record(run, path, content)

    def _record(self, run: ModelRun, path: str, content: Any, version: int | None = None) -> None:
        """Change the tree, and let the run and those that wait know."""
        before = self.tree.get(path, ABSENT), self.versions.get(path, 0)
        after = content, next(self._numbers) if version is None else version
        if content is ABSENT:
            after = ABSENT, 0
            self.tree.pop(path, None)
            self.versions.pop(path, None)
        else:
            self.tree[path], self.versions[path] = after
        if before == after:
            return
        first = run.changes.get(path)
        run.changes[path] = Change(first.before if first else before, after)
        if run.changes[path].before == run.changes[path].after:
            del run.changes[path]
        for other in self.runs.values():
            if other is not run and not other.is_final:
                other.since.add(path)


# -- what operations do


def _act(tree: Draft, operation: Operation) -> bool:
    return bool(_ACTS[operation["type"]](tree, operation))


def _create(tree: Draft, operation: Operation) -> bool:
    if operation["path"] in tree and not operation["overwrite"]:
        return False
    tree.put(operation["path"], operation["content"])
    return True


def _edit(tree: Draft, operation: Operation) -> bool:
    text = tree.get(operation["path"])
    (edit,) = operation["edits"]
    if text is None or edit["oldContent"] not in text or edit["oldContent"] == edit["newContent"]:
        return False
    tree.write(operation["path"], text.replace(edit["oldContent"], edit["newContent"], 1))
    return True


def _delete(tree: Draft, operation: Operation) -> bool:
    if tree.get(operation["path"]) is None:
        return False
    tree.remove(operation["path"])
    return True


def _run(tree: Draft, operation: Operation) -> bool:
    verb, *names = operation["command"].split()
    return bool(_VERBS[verb](tree, *names))


def _write(tree: Draft, text: str, _: str, path: str) -> bool:
    if not _has_parent(tree, path):
        return False
    tree.write(path, text)
    return True


def _move(tree: Draft, source: str, destination: str) -> bool:
    if source not in tree or not _has_parent(tree, destination):
        return False
    tree.write(destination, tree[source])
    tree.remove(source)
    return True


def _make_folder(tree: Draft, _: str, path: str) -> bool:
    if path not in tree:
        tree.put(path, None)
    return True


def _remove(tree: Draft, _: str, folder: str) -> bool:
    tree.remove(folder)
    return True


_ACTS: dict[str, Callable[[Draft, Operation], bool]] = {
    "message": lambda *_: True,
    "createFile": _create,
    "readFile": lambda tree, operation: tree.get(operation["path"]) is not None,
    "editFile": _edit,
    "deleteFile": _delete,
    "shell": _run,
}
_VERBS: dict[str, Callable[..., bool]] = {
    "printf": _write,
    "mv": _move,
    "mkdir": _make_folder,
    "rm": _remove,
    "false": lambda _: False,
}


def asks(operation: Operation) -> bool:
    return operation["type"] == "shell" and operation["command"].startswith("rm -rf")


def _names(operation: Operation) -> list[str]:
    """The paths that an operation may change."""
    if operation["type"] == "shell":
        return [word for word in operation["command"].split()[1:] if word not in (">", "-rf", "-p")]
    return [operation["path"]] if "path" in operation else []


def _footprint(run: ModelRun) -> set[str]:
    """The paths that an atomic run changes, also those that it has yet to change."""
    return {*run.draft, *(name for operation in run.operations for name in _names(operation))}


def _overlap(some: Iterable[str], others: Iterable[str]) -> bool:
    others = list(others)
    return any(_is_at(one, other) or _is_at(other, one) for one in some for other in others)


def _is_at(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")


def _has_parent(tree: Mapping[str, str | None], path: str) -> bool:
    parent = posixpath.dirname(path)
    return not parent or parent in tree


def _below(tree: Mapping[str, str | None], folder: str) -> list[str]:
    return [path for path in tree if path.startswith(f"{folder}/")]


def _parents(path: str) -> Iterable[str]:
    parts = path.split("/")[:-1]
    return ("/".join(parts[: number + 1]) for number in range(len(parts)))
