"""The git tool: fields and answers of the workspace-tool-interface, with this dialect's paths and spelling."""

from __future__ import annotations

import posixpath
from functools import partial

from pydantic import ConfigDict, Field
from pydantic.alias_generators import to_camel

from wap_kernel.dialects.coding_environment.parameters import Confirmed, RootedParameters
from wap_kernel.dialects.coding_environment.workspace_root import RootFolder, render_relative
from wap_kernel.dialects.tool_interface import git_answers
from wap_kernel.dialects.tool_interface.git_parameters import GitParameters, Paths
from wap_kernel.model.git.operations import GitAction
from wap_kernel.model.git.results import GitResult
from wap_kernel.model.operations import Operation


class GitToolParameters(RootedParameters, GitParameters):
    model_config = ConfigDict(alias_generator=to_camel)

    workdir: str = Field(".", min_length=1, description="Folder in the repository.")
    files: Paths | None = Field(
        None,
        description="commit (only these), add, restore, diff, log.",
    )
    path: str | None = Field(None, min_length=1, description="clone: the new folder.")
    confirmed: Confirmed = False

    def build_operation(self, root: RootFolder) -> Operation:
        def resolve(path: str) -> str:
            # An absolute path stays what it is.
            return posixpath.normpath(root.resolve(posixpath.join(self.workdir, path)))

        action = self.action_in(root.resolve(self.workdir), resolve)
        return action.model_copy(update={"within": root.within, "confirmed": self.confirmed})


class GitToolAnswer(git_answers.GitAnswer):
    model_config = ConfigDict(serialize_by_alias=True)


def render_git(operation: GitAction, result: GitResult) -> GitToolAnswer:
    return GitToolAnswer.model_validate(
        git_answers.encode_answer(operation, result, partial(render_relative, within=operation.within))
    )
