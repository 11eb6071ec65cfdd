"""The pipeline that every operation from every dialect goes through.

    validate -> resolve paths -> verdict -> [approval] -> audit intent -> perform, with before-images -> audit outcome

Runs on the workspace's threads, see `Workspace.on_thread`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from wap_kernel.engine.actions import Actions
from wap_kernel.engine.bulk_create import BulkCreate, NewFile
from wap_kernel.engine.fast_path import FastPath
from wap_kernel.engine.judge import Judge
from wap_kernel.engine.permit import DEFAULTS, ExecutionOptions, Permit
from wap_kernel.files.contained.root import Root
from wap_kernel.files.interface import Locks
from wap_kernel.files.read import WholeFile
from wap_kernel.git.remote.preview import TransferPreview
from wap_kernel.model.caller import CallContext, Caller
from wap_kernel.model.command import CancelToken, OnChunk
from wap_kernel.model.errors import (
    ExecutionFailed,
    InternalError,
    InvalidArgument,
    PermissionDenied,
    WapError,
    translate_os_error,
)
from wap_kernel.model.git.operations import GitAction, GitTransfer
from wap_kernel.model.git.results import GitResult
from wap_kernel.model.operations import ApplyChanges, Effect, Operation, ReadFile, RevertRun, RunCommand
from wap_kernel.model.results import Limits, Result, WriteResult
from wap_kernel.model.run import Run
from wap_kernel.policy.current import BoundPolicy
from wap_kernel.policy.decide import Judgement
from wap_kernel.policy.verdict import Verdict, VerdictKind
from wap_kernel.redaction import results
from wap_kernel.redaction.results import CurrentRedactor
from wap_kernel.redaction.stream import RedactedStream
from wap_kernel.state.audit.log import Audit, classify_failure
from wap_kernel.state.changes.history import ChangeHistory
from wap_kernel.state.undo.undo import Undo

Changed = Callable[[Operation, Caller, CallContext], None]


class Pipeline:
    """The one way from an operation to its result.

    `changed` is called with every operation that changed something; `bug` logs an unexpected error and returns the
    error for the caller.
    """

    def __init__(
        self,
        files: Root,
        audit: Audit,
        judge: Judge,
        actions: Actions,
        history: ChangeHistory,
        undo: Undo,
        locks: Locks,
        redactor: CurrentRedactor,
        limits: Limits,
        *,
        changed: Changed,
        bug: Callable[[Exception, str], WapError],
    ) -> None:
        self._files = files
        self._audit = audit
        self._judge = judge
        self._actions = actions
        self._history = history
        self._undo = undo
        self._bulk_create = BulkCreate(audit, locks, history.log, self._translate) if undo.is_on else None
        self._redactor = redactor
        self._limits = limits
        self._changed = changed
        self._bug = bug

    def perform(
        self,
        operation: Operation,
        caller: Caller,
        context: CallContext,
        cancel: CancelToken,
        on_chunk: OnChunk | None = None,
        options: ExecutionOptions = DEFAULTS,
    ) -> Result:
        """Perform `operation` or raise a WapError; both are audited."""
        watched = None if on_chunk is None else RedactedStream(on_chunk, self._redactor.now)
        record = self._audit.record(operation, caller, context)
        try:
            policy = self._judge.bind_for(operation, caller, options.policy)
            judgement = self._judge.judge(operation, policy)
            asks_for = self._judge.enforce(judgement, caller, approved=options.approved)
            require_intent = self._audit.intent(record)
            permit = self._permit(operation, policy, judgement, asks_for, options)
            require_intent()
            allows_loss = options.approved or policy.effective.effects.unkept is VerdictKind.ALLOW
            recorded = self._record(operation, permit, context, allows_loss=allows_loss)
            result = self._actions.perform(operation, recorded, caller, cancel, watched, context)
            result = context.recorder.complete(results.redact_result(result, self._redactor))
        except Exception as error:  # noqa: BLE001 - whatever it is, it is audited, and a bug is logged
            failure = results.redact_error(self._translate(error, operation), self._redactor)
            context.recorder.fail(failure)
            self._audit.outcome(record, classify_failure(failure), failure)
            raise failure from None
        finally:
            if watched is not None:
                watched.end()
        if isinstance(result, GitResult) and result.failure is not None:
            self._audit.outcome(record, "failed", ExecutionFailed(result.failure.audit_text))
        else:
            self._audit.outcome(record, "ok", exit_code=getattr(result, "exit_code", 0))
        if operation.effect is not Effect.READ and not context.dry_run:
            self._changed(operation, caller, context)
        return result

    def fast_path(self, policy: BoundPolicy) -> FastPath:
        return FastPath(self._files, policy, self._limits)

    def read_fast(
        self, fast_path: FastPath, operation: ReadFile, caller: Caller, context: CallContext, step: str
    ) -> WholeFile | None:
        """Return what `perform` would read, or None: then `perform` must answer.

        `step` is the id of the step, in a context that many steps share.
        """
        record = self._audit.record(operation, caller, context, step=step)
        whole = fast_path.read(operation)
        if whole is not None and self._redactor.withholds(whole.content):
            return None
        if whole is not None:
            self._audit.outcome(record, "ok")
        return whole

    def create_in_bulk(
        self, fast_path: FastPath, files: Sequence[NewFile], caller: Caller, context: CallContext, cancel: CancelToken
    ) -> list[WriteResult | WapError]:
        """Create the first of `files` and return what `perform` would answer for them.

        Where the list is empty, `perform` must answer for the first one. It is empty where undo is off: without
        before-images a crash would leave no trace of the files that were being created.
        """
        if self._bulk_create is None:
            return []
        created = self._bulk_create.create(fast_path, files, caller, context, cancel)
        for new, result in zip(files, created, strict=False):
            if isinstance(result, WriteResult):
                self._changed(new.operation, caller, context)
            else:
                results.redact_error(result, self._redactor)
        return created

    @contextmanager
    def audit_action(self, operation: Operation, caller: Caller, context: CallContext) -> Iterator[Callable[[], None]]:
        """Audit an action that is done without `perform`.

        A caller that stores nothing else first calls the yielded function, which makes sure that the intent is written.
        """
        record = self._audit.record(operation, caller, context)
        require_intent = self._audit.intent(record)
        try:
            yield require_intent
        except WapError as error:
            self._audit.outcome(record, classify_failure(error), error)
            raise
        self._audit.outcome(record, "ok")

    def undo_run(self, run: Run) -> list[str]:
        """Undo the changes of an atomic run so far, and return what could not be undone."""
        operation, context = RevertRun(run=run.id), CallContext(dialect=run.dialect, tool="undo", run=run.id)
        with self.audit_action(operation, run.caller, context) as require_intent:
            require_intent()
            left = self._undo.take_back(run)
        self._changed(operation, run.caller, context)
        return left

    def preview_transfer(self, operation: Operation, caller: Caller) -> TransferPreview | None:
        """Return the preview of a transfer by git, empty where it cannot be made, or None for any other operation.

        Raise the refusal that the transfer would get even with an approval.
        """
        if not isinstance(operation, GitTransfer):
            return None
        try:
            return self._actions.preview_transfer(operation, self._judge.permit_preview(operation, caller))
        except (PermissionDenied, InvalidArgument):
            raise
        except WapError:
            return TransferPreview()

    def _permit(
        self,
        operation: Operation,
        policy: BoundPolicy,
        judgement: Judgement,
        asks_for: Verdict | None,
        options: ExecutionOptions,
    ) -> Permit:
        """Return what the operation may use in this execution."""
        overlay = options.overlay if options.layer is None else options.layer.files
        permit = self._judge.permit(policy, network=judgement.verdict.network and not asks_for, overlay=overlay)
        if not isinstance(operation, RunCommand | GitAction | ApplyChanges) and options.layer is None:
            return permit
        return replace(
            permit,
            is_approved=options.approved,
            asks_for=asks_for,
            pending=options.pending,
            layer=options.layer,
            on_start=options.on_start,
        )

    def _record(self, operation: Operation, permit: Permit, context: CallContext, *, allows_loss: bool) -> Permit:
        """Return the permit with files that record what the operation changes, for its undo.

        With `allows_loss`, what is too large for the store is lost: policy allows that, or a person has approved it.
        """
        is_simulated = context.dry_run or permit.layer is not None
        is_command = isinstance(operation, RunCommand | GitAction)  # whose layer is applied
        if operation.effect is not Effect.WRITE or is_command or is_simulated or context.run is None:
            return permit
        context.recorder.begin()
        files = self._history.open_files(permit.guard, context.run, context.position, allows_loss=allows_loss)
        return replace(permit, files=files)

    def _translate(self, error: Exception, operation: Operation) -> WapError:
        if isinstance(error, WapError):
            return error
        if isinstance(error, OSError):
            named = operation.summary()
            path = str(named.get("path") or named.get("source") or named.get("cwd") or "")
            translated = translate_os_error(error, path)
            if not isinstance(translated, InternalError):
                return translated
        return self._bug(error, operation.kind)
