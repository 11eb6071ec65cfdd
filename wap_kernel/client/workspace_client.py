"""The typed Python API: what a person or a program in a notebook can do in the workspace.

from wap_kernel import connect

ws = connect()
ws.read("app.py", lines=(10, 20))
ws.run([{"type": "shell", "command": "pytest -q"}])
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from wap_kernel.client import run_reference, search_parameters
from wap_kernel.client.backend import Data
from wap_kernel.client.results import (
    AuditRecords,
    FileText,
    Grants,
    Hits,
    Listing,
    Overview,
    Policy,
    Problem,
    RunResult,
    Runs,
    Verdicts,
)
from wap_kernel.client.run_tracker import RunOptions, Watched
from wap_kernel.client.watching import WAITING, OnSent
from wap_kernel.model.errors import WapError
from wap_kernel.model.limits import MAX_OUTPUT_PAGE_BYTES

if TYPE_CHECKING:
    from typing_extensions import Unpack

PRESETS = ("restrictive", "standard", "permissive")

Operations = Sequence[Mapping[str, Any]] | Mapping[str, Any]
"""A list of Agent Spaces operations, or a whole operations message."""
Lines = tuple[int, int | None]


def connect(folder: str | None = None, url: str | None = None, token: str | None = None) -> Hands:
    """The workspace of the server that started this kernel; without one, this folder.

    `url` and `token` name another server; `folder` names a folder to work in without a server.

    >>> ws = connect()
    >>> ws = connect(url="http://localhost:8888/", token="...")
    >>> ws = connect("project")
    """
    if url is not None:
        from wap_kernel.client.server_backend import ServerBackend

        server = ServerBackend(url, token or "")
        server.require()
        return Hands(server)
    if folder is not None:
        from wap_kernel.client.embedded_backend import EmbeddedBackend

        return Hands(EmbeddedBackend(folder))
    from wap_kernel.client.discovery import find

    return Hands(find(os.environ, os.getcwd()))


class Hands(Watched):
    """Everything is bound by policy and audited. What changes something is a run: it can be watched and undone."""

    # -- looking

    def overview(self) -> Overview:
        """The workspace, what binds it, and what waits for approval."""
        backend = self._backend
        layers = [str(layer["name"]) for layer in backend.policy()["layers"]]
        return Overview(
            {
                "place": self.place.told,
                "workspace": backend.call("getWorkspaceInfo", {}),
                "preset": next((name for name in layers if name in PRESETS), ", ".join(layers)),
                "waiting": backend.runs(WAITING, run_reference.LOOKED_AT)["runs"],
                "running": len(backend.runs("running", run_reference.LOOKED_AT)["runs"]),
            }
        )

    def ls(
        self, path: str = ".", recursive: bool = False, depth: int | None = None, exclude: Sequence[str] | None = None
    ) -> Listing:
        """Files and folders. `depth` says how deep, and means recursive; `exclude` replaces the default exclusions.

        >>> ws.ls("src", depth=2)
        """
        asked: Data = {"path": path, "recursive": recursive or depth is not None, "returnMetadata": True}
        asked |= _given(maxDepth=depth, excludePatterns=None if exclude is None else list(exclude))
        return Listing(self._backend.call("exploreFiles", asked), path=path)

    def read(self, path: str, lines: Lines | None = None) -> FileText:
        """A file, or the lines from the first to the last of `lines`, counted from 1 (None: to the end).

        >>> ws.read("app.py", lines=(10, 20)).text
        """
        first, last = (None, None) if lines is None else lines
        asked = {"path": path, **_given(startLine=first, endLine=last)}
        return FileText(self._backend.call("readFile", asked), path=path, first_line=first or 1)

    def search(
        self,
        pattern: str,
        path: str = ".",
        regex: bool = False,
        ignore_case: bool = False,
        globs: Sequence[str] | None = None,
        context: int = 2,
    ) -> Hits:
        """Where a text, or a regular expression as Rust has them, occurs; only in files that one of `globs`,
        seen from `path`, matches.

        >>> ws.search("TODO", "src", globs=["*.py"])
        """
        asked = search_parameters.parameters(pattern, path, regex, ignore_case, context)
        if globs:
            usual = self._backend.call("getWorkspaceInfo", {})["defaultExclusions"]
            asked["excludePatterns"] = search_parameters.all_but(globs, usual)
        found = self._backend.call("searchFiles", asked)
        return Hits(found, pattern=pattern, regex=regex, ignore_case=ignore_case)

    # -- changing: runs of one operation

    def write(
        self, path: str, content: str | bytes, expected_hash: str | None = None, **options: Unpack[RunOptions]
    ) -> RunResult:
        """Create or replace a file, with the folders on the way. `options` are those of `run`.

        >>> ws.write("notes/today.md", "# Today\\n")
        """
        made: Data = {"type": "createFile", "path": path, "overwrite": True, **_given(expectedHash=expected_hash)}
        if isinstance(content, bytes):
            import base64

            made |= {"encoding": "base64", "content": base64.b64encode(content).decode("ascii")}
        else:
            made["content"] = content
        return self.run([made], **options)

    def edit(
        self, path: str, old: str, new: str, expected_hash: str | None = None, **options: Unpack[RunOptions]
    ) -> RunResult:
        """Replace the first occurrence of `old`, which must be there. `options` are those of `run`.

        >>> ws.edit("app.py", "x = 1", "x = 42")
        """
        edits = [{"oldContent": old, "newContent": new}]
        return self.run(
            [{"type": "editFile", "path": path, "edits": edits, **_given(expectedHash=expected_hash)}], **options
        )

    def delete(self, path: str, expected_hash: str | None = None, **options: Unpack[RunOptions]) -> RunResult:
        """Delete a file. `options` are those of `run`.

        >>> ws.delete("old.txt")
        """
        return self.run([{"type": "deleteFile", "path": path, **_given(expectedHash=expected_hash)}], **options)

    def sh(
        self, command: str, timeout: float | None = None, cwd: str | None = None, **options: Unpack[RunOptions]
    ) -> RunResult:
        """Run a command line; `timeout` in seconds. `options` are those of `run`.

        >>> ws.sh("pytest -q", timeout=60).stdout
        """
        milliseconds = None if timeout is None else round(timeout * 1000)
        return self.run([{"type": "shell", "command": command, **_given(timeout=milliseconds, cwd=cwd)}], **options)

    # -- runs

    def run(
        self,
        operations: Operations,
        atomic: bool = False,
        dry_run: bool = False,
        approve: bool = False,
        wait: bool = True,
        wait_for_approval: float | None = 0.0,
        on_sent: OnSent | None = None,
    ) -> RunResult:
        """Do the operations in order.

        `atomic`: the first failure undoes everything. `dry_run`: nothing is changed. `approve`: say yes to whatever it
        asks. `wait`: return when it has ended, else at once. A run that asks is returned as it waits, after
        `wait_for_approval` seconds in which another may decide (None: however long that takes). `on_sent` is called
        with all that happens. An interrupt cancels the run; what became of it is in `last`.

        >>> ws.run([{"type": "readFile", "path": "a.py"}, {"type": "shell", "command": "make"}], atomic=True)
        """
        message = run_reference.operations_message(operations, atomic=atomic, dry_run=dry_run)
        key = secrets.token_hex(16)
        return self._see(
            lambda: self._backend.start(message, key),
            wait=wait,
            approve=approve,
            wait_for_approval=wait_for_approval,
            on_sent=on_sent,
            operations=message["operations"],
        )

    def runs(self, status: str | None = None, limit: int = 20) -> Runs:
        """The newest runs; only those with a status, such as `awaiting_approval`."""
        return Runs(self._backend.runs(status, limit))

    def show(self, run: str = run_reference.LAST) -> RunResult:
        """A run by its id, the beginning of it, or `last`."""
        return self._told(self._backend.get(self._named(run, or_newest=True)))

    def approve(
        self, run: str | None = None, remember: bool = False, wait: bool = True, on_sent: OnSent | None = None
    ) -> RunResult:
        """Say yes to what a run asks, named by the run or the approval; without a name, to the only one that waits.
        What was not seen here before (as an answer of `run` or `show`) is only approved by the approval's own id.
        `remember` allows the same for good. Returns when the run has ended or asks again.

        >>> ws.approve()
        """
        return self._decide(run, "approved", wait, on_sent, remember=remember)

    def deny(
        self, run: str | None = None, reason: str | None = None, wait: bool = True, on_sent: OnSent | None = None
    ) -> RunResult:
        """Say no; the operation is skipped and the rest goes on.

        >>> ws.deny(reason="Not on a Friday")
        """
        return self._decide(run, "denied", wait, on_sent, reason=reason)

    def cancel(self, run: str = run_reference.LAST) -> RunResult:
        """Stop a run. What was done stays done, unless the run is atomic."""
        return self._told(self._backend.cancel(self._named(run)))

    def revert(
        self, run: str = run_reference.LAST, force: bool = False, wait: bool = True, on_sent: OnSent | None = None
    ) -> RunResult:
        """Undo what a run changed, as a run of its own. `force`: also where a later change would be lost."""
        run_id = self._named(run)
        undo = {"type": "revert", "run": run_id}
        return self._see(
            lambda: self._backend.revert(run_id, force=force), wait=wait, on_sent=on_sent, operations=[undo]
        )

    def changes(self, run: str = run_reference.LAST) -> Data:
        """What a run changed, with diffs, and what a revert would do."""
        return self._backend.changes(self._named(run, or_newest=True))

    def output(self, run: str, operation_id: str, stream: str = "stdout") -> str:
        """The whole output of a command in a run.

        >>> ws.output("last", "op-1", "stderr")
        """
        run_id, pieces, offset = self._named(run, or_newest=True), [], 0
        while True:
            page = self._backend.output(run_id, operation_id, stream, offset, MAX_OUTPUT_PAGE_BYTES)
            pieces.append(str(page["content"]))
            if page["isComplete"] or page["nextOffset"] == offset:  # of a command that still runs: what there is
                return "".join(pieces)
            offset = page["nextOffset"]

    # -- what is allowed, and what was done

    def policy(self) -> Policy:
        """What binds you here."""
        return Policy(self._backend.policy())

    def check(self, operations: Operations) -> Verdicts:
        """What policy would say to the operations. Nothing is done.

        >>> ws.check([{"type": "shell", "command": "rm -rf data"}])
        """
        message = run_reference.operations_message(operations, atomic=False, dry_run=False)
        return Verdicts(self._backend.check(message), operations=message["operations"])

    def audit(self, limit: int = 20, tool: str | None = None, outcome: str | None = None) -> AuditRecords:
        """What was done in the workspace, newest first; `outcome` is ok, denied, failed or unfinished."""
        return AuditRecords(self._backend.audit(limit, tool, outcome))

    def grants(self) -> Grants:
        """What was allowed for good."""
        return Grants(self._backend.grants())

    def revoke(self, grant_id: str) -> None:
        """Take such a permission back."""
        self._backend.revoke(grant_id)

    def close(self) -> None:
        """Let go of the connection; without a server, end what runs."""
        self._backend.close()

    def __repr__(self) -> str:
        return f"<wap: {self.place.name}>"

    def _repr_mimebundle_(
        self, include: Collection[str] | None = None, exclude: Collection[str] | None = None
    ) -> dict[str, str]:
        try:
            return self.overview()._repr_mimebundle_()
        except WapError as error:
            return Problem.of(error)._repr_mimebundle_()


def _given(**values: Any) -> Data:
    return {name: value for name, value in values.items() if value is not None}
