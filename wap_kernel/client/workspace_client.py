"""The typed Python API for people and programs in a notebook.

from wap_kernel import connect

ws = connect()
ws.read("app.py", lines=(10, 20))
ws.run([{"type": "shell", "command": "pytest -q"}])
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from wap_kernel.client import results, run_reference, search_parameters
from wap_kernel.client.backend import Data
from wap_kernel.client.run_tracker import AWAITING_APPROVAL, OnUpdate, RunOptions
from wap_kernel.client.tool_calls import ToolCalls
from wap_kernel.model.errors import WapError
from wap_kernel.model.limits import MAX_OUTPUT_PAGE_BYTES, PERSON_COMMAND_SECONDS

if TYPE_CHECKING:
    from typing_extensions import Unpack

PRESETS = ("restrictive", "standard", "permissive")

Operations = Sequence[Mapping[str, Any]] | Mapping[str, Any]
"""A list of Agent Spaces operations, or a whole operations message."""
LineRange = tuple[int, int | None]


def connect(folder: str | None = None, url: str | None = None, token: str | None = None) -> WorkspaceClient:
    """Connect to the workspace of the server that started this kernel; without one, to this folder.

    `url` and `token` name another server; `folder` names a folder to work in without a server.

    >>> ws = connect()
    >>> ws = connect(url="http://localhost:8888/", token="...")
    >>> ws = connect("project")
    """
    if url is not None:
        from wap_kernel.client.server_backend import ServerBackend

        server = ServerBackend(url, token or "")
        server.require()
        return WorkspaceClient(server)
    if folder is not None:
        from wap_kernel.client.embedded_backend import EmbeddedBackend

        return WorkspaceClient(EmbeddedBackend(folder))
    from wap_kernel.client.discovery import find_backend

    return WorkspaceClient(find_backend(os.environ, os.getcwd()))


class WorkspaceClient(ToolCalls):
    """A client of one workspace.

    Policy decides every operation, and the audit records it. Operations that change something are runs, which can be
    watched and undone.
    """

    _command_milliseconds: int | None = None
    """The timeout of a command that names none, once it is known."""

    # -- reading

    def overview(self) -> results.Overview:
        """Return the workspace, its policy, and what waits for approval."""
        backend = self._backend
        layers = [str(layer["name"]) for layer in backend.policy()["layers"]]
        return results.Overview(
            {
                "endpoint": self.endpoint.to_dict(),
                "workspace": backend.call("getWorkspaceInfo", {}),
                "preset": next((name for name in layers if name in PRESETS), ", ".join(layers)),
                "waiting": backend.runs(AWAITING_APPROVAL, run_reference.MAX_LISTED_RUNS)["runs"],
                "running": len(backend.runs("running", run_reference.MAX_LISTED_RUNS)["runs"]),
            }
        )

    def ls(
        self, path: str = ".", recursive: bool = False, depth: int | None = None, exclude: Sequence[str] | None = None
    ) -> results.Listing:
        """List files and folders; `depth` implies `recursive`, and `exclude` replaces the default exclusions.

        >>> ws.ls("src", depth=2)
        """
        parameters: Data = {"path": path, "recursive": recursive or depth is not None, "returnMetadata": True}
        parameters |= _without_none(maxDepth=depth, excludePatterns=None if exclude is None else list(exclude))
        return results.Listing(self._backend.call("exploreFiles", parameters), path=path)

    def read(self, path: str, lines: LineRange | None = None) -> results.FileText:
        """Read a file, or the lines from the first to the last of `lines`, counted from 1 (None: to the end).

        >>> ws.read("app.py", lines=(10, 20)).text
        """
        first, last = (None, None) if lines is None else lines
        parameters = {"path": path, **_without_none(startLine=first, endLine=last)}
        return results.FileText(self._backend.call("readFile", parameters), path=path, first_line=first or 1)

    def search(
        self,
        pattern: str,
        path: str = ".",
        regex: bool = False,
        ignore_case: bool = False,
        globs: Sequence[str] | None = None,
        context: int = 2,
    ) -> results.SearchHits:
        """Search for a text, or for a regular expression in the syntax of Rust.

        `globs` limit the search to files that match one of them, relative to `path`.

        >>> ws.search("TODO", "src", globs=["*.py"])
        """
        parameters = search_parameters.build_parameters(pattern, path, regex, ignore_case, context)
        if globs:
            defaults = self._backend.call("getWorkspaceInfo", {})["defaultExclusions"]
            parameters["excludePatterns"] = search_parameters.exclude_other_files(globs, defaults)
        hits = self._backend.call("searchFiles", parameters)
        return results.SearchHits(hits, pattern=pattern, regex=regex, ignore_case=ignore_case)

    # -- runs of one operation

    def write(
        self, path: str, content: str | bytes, expected_hash: str | None = None, **options: Unpack[RunOptions]
    ) -> results.RunResult:
        r"""Create or replace a file, with the folders above it; `options` are those of `run`.

        >>> ws.write("notes/today.md", "# Today\n")
        """
        operation: Data = {"type": "createFile", "path": path, "overwrite": True}
        operation |= _without_none(expectedHash=expected_hash)
        if isinstance(content, bytes):
            import base64

            operation |= {"encoding": "base64", "content": base64.b64encode(content).decode("ascii")}
        else:
            operation["content"] = content
        return self.run([operation], **options)

    def edit(
        self, path: str, old: str, new: str, expected_hash: str | None = None, **options: Unpack[RunOptions]
    ) -> results.RunResult:
        """Replace the first occurrence of `old`, which must be there; `options` are those of `run`.

        >>> ws.edit("app.py", "x = 1", "x = 42")
        """
        edits = [{"oldContent": old, "newContent": new}]
        return self.run(
            [{"type": "editFile", "path": path, "edits": edits, **_without_none(expectedHash=expected_hash)}], **options
        )

    def delete(self, path: str, expected_hash: str | None = None, **options: Unpack[RunOptions]) -> results.RunResult:
        """Delete a file; `options` are those of `run`."""
        return self.run([{"type": "deleteFile", "path": path, **_without_none(expectedHash=expected_hash)}], **options)

    def sh(
        self,
        command: str,
        timeout: float | None = None,
        cwd: str | None = None,
        isolation: Literal["layer", "shared"] | None = None,
        **options: Unpack[RunOptions],
    ) -> results.RunResult:
        """Run a command line, for at most `timeout` seconds (default: 600); `options` are those of `run`.

        With `isolation="shared"` the command writes into the workspace directly, which cannot be undone: for servers
        and watchers. Otherwise its changes are applied when it has ended.

        >>> ws.sh("pytest -q", timeout=60).stdout
        """
        milliseconds = None if timeout is None else round(timeout * 1000)
        fields = _without_none(timeout=milliseconds, cwd=cwd, isolation=isolation)
        return self.run([{"type": "shell", "command": command, **fields}], **options)

    # -- runs

    def run(
        self,
        operations: Operations,
        atomic: bool = False,
        dry_run: bool = False,
        approve: bool = False,
        wait: bool = True,
        wait_for_approval: float | None = 0.0,
        on_update: OnUpdate | None = None,
    ) -> results.RunResult:
        """Run the operations in order.

        `atomic`: the first failure undoes everything. `dry_run`: nothing is changed. `approve`: approve every operation
        that needs it. `wait`: return when the run has ended, else immediately. A run that needs an approval is returned
        waiting, after `wait_for_approval` seconds in which another person may decide (None: without a limit).
        `on_update` is called with every update of the run. An interrupt cancels the run, whose end is in `last`.

        >>> ws.run([{"type": "readFile", "path": "a.py"}, {"type": "shell", "command": "make"}], atomic=True)
        """
        message = run_reference.build_message(operations, atomic=atomic, dry_run=dry_run)
        message["operations"] = [self._with_timeout(operation) for operation in message["operations"]]
        key = secrets.token_hex(16)
        return self._track(
            lambda: self._backend.start(message, key),
            wait=wait,
            approve=approve,
            wait_for_approval=wait_for_approval,
            on_update=on_update,
            operations=message["operations"],
        )

    def _with_timeout(self, operation: Any) -> Any:
        """Return an operation with the default timeout of a person, if it is a command that names none."""
        if not isinstance(operation, Mapping) or operation.get("type") != "shell" or "timeout" in operation:
            return operation
        if self._command_milliseconds is None:
            longest = self._backend.call("getWorkspaceInfo", {})["limits"]["maxTimeoutMs"]
            self._command_milliseconds = min(1000 * PERSON_COMMAND_SECONDS, longest)
        return {**operation, "timeout": self._command_milliseconds}

    def runs(self, status: str | None = None, limit: int = 20) -> results.RunList:
        """List the newest runs; with `status`, only those with it, such as `awaiting_approval`."""
        return results.RunList(self._backend.runs(status, limit))

    def show(self, run: str = run_reference.LAST) -> results.RunResult:
        """Return a run by its id, the beginning of it, or `last`; one that has ended is shown with its changes."""
        return self._to_result(self._backend.get(self._resolve(run, or_newest="any")), is_detailed=True)

    def show_pending(self, run: str | None = None) -> results.RunResult:
        """Return a run that waits for approval, by its id or that of the approval; without one, the only one."""
        return self._to_result(self._backend.get(self._find_pending(run).run))

    def show_unseen(self, run: str | None = None) -> results.RunResult | None:
        """Return a run that waits for an approval that this client has not displayed; None where it has."""
        pending = self._find_pending(run)
        if self._is_displayed(run, pending.approval):
            return None
        waiting = self._to_result(self._backend.get(pending.run))
        return results.RunResult(waiting.data, **waiting.request, is_first_display=True)

    def find_new_approvals(self) -> results.ApprovalNotice | None:
        """Return the runs of agents that wait for approval and that this client has neither named nor displayed."""
        waiting = [
            run
            for run in self._backend.runs(AWAITING_APPROVAL, run_reference.NEWEST_RUNS)["runs"]
            if run.get("agent") and "pendingApproval" in run
        ]
        known = self._displayed_approvals | self._named_approvals
        new = [run for run in waiting if str(run["pendingApproval"]["approvalId"]) not in known]
        self._named_approvals |= {str(run["pendingApproval"]["approvalId"]) for run in new}
        return results.ApprovalNotice({"runs": new}) if new else None

    def approve(
        self, run: str | None = None, remember: bool = False, wait: bool = True, on_update: OnUpdate | None = None
    ) -> results.RunResult:
        """Approve what a run waits for, by the id of the run or of the approval; without one, the only one that waits.

        An approval that this client has not displayed before (in a result of `run` or `show`) can only be approved by
        its own id. `remember` also creates a grant for the same. Return when the run has ended or waits again.

        >>> ws.approve()
        """
        return self._decide(run, "approved", wait, on_update, remember=remember)

    def deny(
        self, run: str | None = None, reason: str | None = None, wait: bool = True, on_update: OnUpdate | None = None
    ) -> results.RunResult:
        """Deny what a run waits for: the operation is skipped, and the rest of the run goes on."""
        return self._decide(run, "denied", wait, on_update, reason=reason)

    def cancel(self, run: str = run_reference.LAST) -> results.RunResult:
        """Cancel a run; the changes of its completed operations stay, unless the run is atomic."""
        return self._to_result(self._backend.cancel(self._resolve(run)))

    def revert(
        self, run: str = run_reference.LAST, force: bool = False, wait: bool = True, on_update: OnUpdate | None = None
    ) -> results.RunResult:
        """Undo the changes of a run, as a run of its own; with `force`, also where a later change would be lost.

        `last` is the last run of this client; where it has started none, the newest run or single call that has ended.
        """
        run_id = self._resolve(run, or_newest="ended")
        undo = {"type": "revert", "run": run_id}
        return self._track(
            lambda: self._backend.revert(run_id, force=force), wait=wait, on_update=on_update, operations=[undo]
        )

    def apply(
        self,
        run: str = run_reference.LAST,
        paths: Sequence[str] | None = None,
        wait: bool = True,
        on_update: OnUpdate | None = None,
    ) -> results.RunResult:
        """Apply what a run left in its layer, because the files had changed meanwhile or it was cancelled.

        With `paths`, only at these files and folders. What is there now is replaced; a revert restores it.

        >>> ws.apply("last", ["data.csv"])
        """
        run_id = self._resolve(run)
        taking = {"type": "apply", "run": run_id}
        return self._track(
            lambda: self._backend.apply(run_id, paths), wait=wait, on_update=on_update, operations=[taking]
        )

    def changes(self, run: str = run_reference.LAST) -> Data:
        """Return the changes of a run, with diffs, and what a revert would do."""
        return self._backend.changes(self._resolve(run, or_newest="any"))

    def output(self, run: str, operation_id: str, stream: str = "stdout") -> str:
        """Return the whole output of a command in a run."""
        run_id, pieces, offset = self._resolve(run, or_newest="any"), [], 0
        while True:
            page = self._backend.output(run_id, operation_id, stream, offset, MAX_OUTPUT_PAGE_BYTES)
            pieces.append(str(page["content"]))
            if page["isComplete"] or page["nextOffset"] == offset:  # a command that still runs: return what there is
                return "".join(pieces)
            offset = page["nextOffset"]

    # -- policy and audit

    def policy(self) -> results.PolicyReport:
        """Return the policy for this caller."""
        return results.PolicyReport(self._backend.policy())

    def check(self, operations: Operations) -> results.VerdictList:
        """Return the verdicts of policy on operations, without running them.

        >>> ws.check([{"type": "shell", "command": "rm -rf data"}])
        """
        message = run_reference.build_message(operations, atomic=False, dry_run=False)
        return results.VerdictList(self._backend.check(message), operations=message["operations"])

    def audit(self, limit: int = 20, tool: str | None = None, outcome: str | None = None) -> results.AuditRecords:
        """Return audit records, newest first; `outcome` is ok, asked, denied, failed or unfinished."""
        return results.AuditRecords(self._backend.audit(limit, tool, outcome))

    def grants(self) -> results.GrantList:
        """List the grants."""
        return results.GrantList(self._backend.grants())

    def revoke(self, grant_id: str) -> None:
        """Revoke a grant."""
        self._backend.revoke(grant_id)

    def close(self) -> None:
        """Close the connection; without a server, end the runs of this process."""
        self._backend.close()

    def __repr__(self) -> str:
        return f"<wap: {self.endpoint.name}>"

    def _repr_mimebundle_(
        self, include: Collection[str] | None = None, exclude: Collection[str] | None = None
    ) -> dict[str, str]:
        try:
            return self.overview()._repr_mimebundle_()
        except WapError as error:
            return results.Problem.from_error(error)._repr_mimebundle_()


def _without_none(**values: Any) -> Data:
    return {name: value for name, value in values.items() if value is not None}
