"""Build the answer of git: one flat object, whose fields depend on the action. Pure.

MCP's tool answers the same in camel case, with paths of its own: see `coding_environment/git_tool.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any

from pydantic import ConfigDict
from pydantic.alias_generators import to_camel

from wap_kernel.dialects.tool_interface.answers import Answer
from wap_kernel.dialects.tool_interface.workspace_path import render_path
from wap_kernel.model.git import results as git
from wap_kernel.model.git.operations import GitAction
from wap_kernel.model.git.results import GitResult


class GitPart(Answer):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, serialize_by_alias=False)


class Person(GitPart):
    name: str
    email: str


class Change(GitPart):
    path: str
    kind: str
    old_path: str | None = None


class FileDiff(GitPart):
    path: str
    kind: str
    added: int | None = None
    deleted: int | None = None
    patch: str
    old_path: str | None = None


class Diff(GitPart):
    files: list[FileDiff]
    left_out: int
    """Files that policy does not show."""
    truncated: bool


class Commit(GitPart):
    id: str
    parents: list[str]
    author: Person
    authored_at: str
    committer: Person
    committed_at: str
    subject: str
    body: str


class Branch(GitPart):
    name: str
    commit: str
    current: bool
    remote: bool


class RefChange(GitPart):
    name: str
    before: str | None = None
    after: str | None = None


class Fetched(GitPart):
    remote: str
    refs: list[RefChange]


class GitAnswer(GitPart):
    action: str
    exit_code: int
    """Exit code of git; if not 0, `stderr` has git's own words, `message` what to do next, `reason` why in a word."""
    stderr: str
    reason: str | None = None
    message: str | None = None
    # status
    branch: str | None = None
    commit: Commit | str | None = None
    upstream: str | None = None
    ahead: int | None = None
    behind: int | None = None
    staged: Diff | list[Change] | None = None
    changed: list[Change] | None = None
    untracked: list[str] | None = None
    conflicts: list[Change] | list[str] | None = None
    left_out: int | None = None
    underway: str | None = None
    note: str | None = None
    # diff and show
    unstaged: Diff | None = None
    diff: Diff | None = None
    path: str | None = None
    size: int | None = None
    content: str | None = None
    truncated: bool | None = None
    names: list[str] | None = None
    # log
    commits: list[Commit] | None = None
    more: bool | None = None
    # commit, add, restore, checkout, branch
    id: str | None = None
    author: Person | None = None
    files: int | None = None
    paths: list[str] | None = None
    created: bool | None = None
    current: str | None = None
    branches: list[Branch] | None = None
    # fetch, pull, push, clone
    remote: str | None = None
    refs: list[RefChange] | None = None
    fetched: Fetched | None = None
    before: str | None = None
    after: str | None = None
    kind: str | None = None
    runId: str | None = None
    """Run that undoes the call when it is reverted."""


_PATHS = frozenset({"path", "old_path", "untracked", "paths"})


def answer_git(operation: GitAction, result: GitResult) -> GitAnswer:
    return GitAnswer.model_validate(encode_answer(operation, result, render_path))


def encode_answer(operation: GitAction, result: GitResult, render: Callable[[str], str]) -> dict[str, Any]:
    """Return the answer as data, with each path as `render` names it to the caller."""
    answer: dict[str, Any] = {"action": operation.action, "exit_code": result.exit_code, "stderr": ""}
    if result.run_id is not None:
        answer["runId"] = result.run_id
    failure = result.failure
    if failure is None:
        return {**answer, **_encode_value(result.answer, render)}
    answer |= {"stderr": failure.stderr, "reason": failure.reason.value, "message": failure.text}
    return answer | ({"conflicts": [*map(render, failure.conflicts)]} if failure.conflicts else {})


def _encode_value(answer: Any, render: Callable[[str], str]) -> Any:
    """Return the data of a git result; a field without a value is absent."""
    if isinstance(answer, git.FolderAtCommit):
        # The names in a folder are no paths of their own.
        return {
            "path": render(answer.path),
            "commit": answer.commit,
            "names": [*answer.names],
            "left_out": answer.left_out,
        }
    if is_dataclass(answer) and not isinstance(answer, type):
        named = ((field.name, getattr(answer, field.name)) for field in fields(answer))
        return {
            name: _render_paths(value, render) if name in _PATHS else _encode_value(value, render)
            for name, value in named
            if value is not None
        }
    return [_encode_value(each, render) for each in answer] if isinstance(answer, tuple) else answer


def _render_paths(value: Any, render: Callable[[str], str]) -> Any:
    return [*map(render, value)] if isinstance(value, tuple) else render(value)
