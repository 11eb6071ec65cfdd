"""Define the fields of git, check those of each action, and translate a request to an operation of the engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Annotated, Any, Literal

from pydantic import Field

from wap_kernel.dialects.tool import INTEGER
from wap_kernel.dialects.tool_interface import workspace_path
from wap_kernel.dialects.tool_interface.parameters import InterfaceParameters, Positive
from wap_kernel.git.settings import to_https
from wap_kernel.model.errors import InvalidArgument
from wap_kernel.model.git.names import check_branch_name as branch_name
from wap_kernel.model.git.operations import GitAction, GitChange, GitRead, GitTransfer
from wap_kernel.model.limits import (
    INTERFACE_MAX_GIT_FILES,
    INTERFACE_MAX_GIT_WORD_CHARACTERS,
    MAX_COMMIT_MESSAGE_BYTES,
    MAX_LOG_COMMITS,
)
from wap_kernel.model.operations import Operation
from wap_kernel.policy.git_remotes import parse_remote

Paths = Annotated[list[Annotated[str, Field(min_length=1)]], Field(min_length=1, max_length=INTERFACE_MAX_GIT_FILES)]
Action = Literal[
    "status", "diff", "log", "show", "commit", "checkout", "branch", "add", "restore", "fetch", "pull", "push", "clone"
]

# The fields that an action requires, and those that it may have.
FIELDS: Mapping[str, tuple[frozenset[str], frozenset[str]]] = MappingProxyType(
    {
        action: (frozenset(needs.split()), frozenset(takes.split()))
        for action, needs, takes in (
            ("status", "", ""),
            ("diff", "", "files"),
            ("log", "", "files ref limit skip"),
            ("show", "", "ref"),
            ("commit", "message", "files author"),
            ("checkout", "branch", ""),
            ("branch", "", "branch ref delete force"),
            ("add", "files", ""),
            ("restore", "files", "ref staged"),
            ("fetch", "", "url"),
            ("pull", "", "url"),
            ("push", "", "url branch force delete"),
            ("clone", "url path", "branch depth"),
        )
    }
)
_BY_ACTION = frozenset(name for needs, takes in FIELDS.values() for name in needs | takes)
_KINDS: Mapping[str, type[GitAction]] = MappingProxyType(
    {
        **dict.fromkeys(("status", "diff", "log", "show", "branch"), GitRead),
        **dict.fromkeys(("add", "restore", "commit", "checkout"), GitChange),
        **dict.fromkeys(("fetch", "pull", "push", "clone"), GitTransfer),
    }
)


class GitParameters(InterfaceParameters):
    action: Action = Field(description="What to do.")
    workdir: str = Field(workspace_path.WORKSPACE, min_length=1, description="Folder of the repository, or one in it.")
    message: str | None = Field(
        None, min_length=1, max_length=MAX_COMMIT_MESSAGE_BYTES, description="commit: what changed."
    )
    author: str | None = Field(
        None,
        min_length=1,
        max_length=INTERFACE_MAX_GIT_WORD_CHARACTERS,
        description="commit: Name <e-mail>; by default as configured.",
    )
    files: Paths | None = Field(
        None,
        description="commit (only these), add, restore, diff, log: files and folders, /workspace/... or relative "
        'to workdir; "." is all of it.',
    )
    branch: str | None = Field(
        None,
        min_length=1,
        max_length=INTERFACE_MAX_GIT_WORD_CHARACTERS,
        description="checkout (made if missing), branch (none: list them), push, clone.",
    )
    ref: str | None = Field(
        None,
        min_length=1,
        max_length=INTERFACE_MAX_GIT_WORD_CHARACTERS,
        description="show: COMMIT or COMMIT:PATH. log: COMMIT or a..b. restore, branch: where from.",
    )
    staged: bool | None = Field(None, description="restore: only unstage.")
    force: bool | None = Field(None, description="push: overwrite. branch: delete unmerged.")
    delete: bool | None = Field(None, description="push, branch: delete it.")
    limit: Annotated[int, Field(ge=1, le=MAX_LOG_COMMITS), INTEGER] | None = Field(None, description="log: default 50.")
    skip: Annotated[int, Field(ge=0, le=2**31), INTEGER] | None = Field(None, description="log: skip so many.")
    url: str | None = Field(
        None,
        min_length=1,
        max_length=INTERFACE_MAX_GIT_WORD_CHARACTERS,
        description="clone; else instead of the repository's remote.",
    )
    path: str | None = Field(None, min_length=1, description="clone: the new folder.")
    depth: Positive | None = Field(None, description="Not supported.", json_schema_extra={"deprecated": True})

    def operation(self, names_of_root: tuple[str, ...]) -> Operation:
        folder = workspace_path.parse_path(self.workdir, names_of_root)
        return self.action_in(folder, lambda path: workspace_path.parse_in_folder(path, folder, names_of_root))

    def action_in(self, folder: str, named: Callable[[str], str]) -> Operation:
        """Return the operation in this folder of the workspace; `named` parses a path of the request."""
        self._check_fields()
        if self.depth is not None:
            raise InvalidArgument("depth: Shallow clones are not supported.", hint="Leave it out.")
        for word in (self.branch, self.ref):
            if word is not None and not word.isprintable():
                raise InvalidArgument("branch and ref hold no control characters.")
        if self.branch is not None and self.action != "checkout":
            branch_name(self.branch)
        kind = GitChange if self.action == "branch" and self.branch is not None else _KINDS[self.action]
        return kind(**self._fields(folder, named))

    def _check_fields(self) -> None:
        needs, takes = FIELDS[self.action]
        sent = self.model_fields_set & _BY_ACTION
        for name in sorted(needs - sent):
            raise InvalidArgument(f"{name}: This field is required for {self.action}.")
        for name in sorted(sent - needs - takes):
            raise InvalidArgument(
                f"{name}: This field does not belong to {self.action}.",
                hint=f"This action takes: {', '.join(sorted(needs | takes)) or 'nothing else'}.",
            )
        if self.action == "branch" and self.branch is None and sent:
            raise InvalidArgument(f"branch: This field is required with {', '.join(sorted(sent))}.")

    def _fields(self, folder: str, named: Callable[[str], str]) -> dict[str, Any]:
        fields = {
            "action": self.action,
            "folder": folder,
            "files": tuple(map(named, self.files or ())),
            "message": self.message,
            "author": self.author,
            "branch": self.branch,
            "revision": self.ref,
            "staged": self.staged,
            "force": self.force,
            "delete": self.delete,
            "limit": self.limit,
            "skip": self.skip,
            # Checked before it is stored or logged anywhere: it may hold a password.
            "url": None if self.url is None else parse_remote(to_https(self.url)).url,
            "destination": None if self.path is None else named(self.path),
        }
        return {name: value for name, value in fields.items() if value is not None}
