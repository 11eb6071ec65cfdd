"""Calls of single tools that are no operations of a batch: git, glob, notebooks, move and copy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wap_kernel.client import results
from wap_kernel.client.backend import Data
from wap_kernel.client.run_tracker import RunTracker
from wap_kernel.model.errors import ApprovalRequired

ROOT_ALIAS = "/workspace/"
"""The beginning of the paths in the answers of the workspace-tool-interface."""


class ToolCalls(RunTracker):
    """The part of the workspace client that calls single tools."""

    def glob(self, pattern: str, path: str = ".") -> results.Listing:
        """List the files whose path below `path` matches a glob, newest first.

        >>> list(ws.glob("src/**/*.py"))
        """
        found = self._backend.call_workspace("glob", {"pattern": pattern, "path": path})
        files = [{"path": match.removeprefix(ROOT_ALIAS), "isDirectory": False} for match in found["matches"]]
        return results.Listing({"files": files, "totalFound": found["count"]}, path=path)

    def notebook(self, path: str, cells: Sequence[str] | None = None, outputs: bool = True) -> results.NotebookCells:
        """Read the cells of a notebook, or those with these ids, with or without their outputs as text.

        >>> [cell["source"] for cell in ws.notebook("analysis.ipynb")]
        """
        parameters: Data = {"path": path, "includeOutputs": outputs}
        if cells is not None:
            parameters["cellIds"] = list(cells)
        return results.NotebookCells(self._backend.call("readNotebook", parameters), path=path)

    def git(self, action: str, folder: str = ".", **fields: Any) -> results.GitOutcome:
        """Call git: status, diff, log, show, add, restore, commit, checkout, branch, fetch, pull, push or clone.

        `fields` are those of the action (`docs/git.md`): `message`, `files`, `branch`, `ref`, `url`, ... An action
        that needs an approval raises ApprovalRequired, whose details name the run and the approval.

        >>> ws.git("commit", message="Fix the sum", files=["sum.py"])
        """
        answer = self._backend.call_workspace("git", {"action": action, "workdir": folder, **fields})
        return results.GitOutcome(answer, action=action)

    def move(self, source: str, destination: str, overwrite: bool = False) -> results.RunResult:
        """Move a file or a folder, and make the folders above the destination; the run can be reverted.

        >>> ws.move("draft.md", "notes/today.md")
        """
        return self._call_in_run("moveFile", source, destination, overwrite)

    def copy(self, source: str, destination: str, overwrite: bool = False) -> results.RunResult:
        """Copy a file, and make the folders above the destination; the run can be reverted."""
        return self._call_in_run("copyFile", source, destination, overwrite)

    def _call_in_run(self, tool: str, source: str, destination: str, overwrite: bool) -> results.RunResult:
        """Call a tool that changes files, and return its run: ended, or waiting for approval."""
        parameters = {"source": source, "destination": destination, "overwrite": overwrite, "createDirectories": True}
        try:
            run_id = str(self._backend.call(tool, parameters)["runId"])
        except ApprovalRequired as waiting:
            run_id = str(waiting.details["runId"])
        self._last_start = None
        self.last = self._to_result(self._backend.get(run_id))
        return self.last
