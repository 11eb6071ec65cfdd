"""Execute one step of a run: perform it, simulate it in a dry run, or pause for approval. On threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from wap_kernel.engine.bulk_create import NewFile
from wap_kernel.engine.effects.approval import UnapprovedEffect
from wap_kernel.engine.effects.preview import describe_change
from wap_kernel.engine.fast_path import FastPath
from wap_kernel.engine.permit import ExecutionOptions
from wap_kernel.files.interface import Files
from wap_kernel.model.caller import CallContext
from wap_kernel.model.changes import ChangeKind
from wap_kernel.model.command import CancelToken
from wap_kernel.model.errors import ApprovalRequired, RateLimited, WapError
from wap_kernel.model.git.operations import GitAction
from wap_kernel.model.limits import MAX_PENDING_APPROVALS
from wap_kernel.model.operations import Effect, Operation, ReadFile, RunCommand, WriteFile
from wap_kernel.model.results import Result
from wap_kernel.model.run import Approval, Run, Step
from wap_kernel.policy.current import BoundPolicy
from wap_kernel.policy.verdict import VerdictKind
from wap_kernel.providers.layers.layer import Layer
from wap_kernel.redaction.results import redact_value
from wap_kernel.runs.approval_evidence import bind_operation
from wap_kernel.runs.batch_layer import BatchLayer
from wap_kernel.runs.services import RunServices, repeat_refusal
from wap_kernel.runs.store.outputs import OutputSpill
from wap_kernel.state.undo.preview_diff import preview_difference

MAX_BULK_FILES = 16
"""New files that are created together: so many may exist without their events after a crash. An atomic run has to know
them exactly, so it creates one at a time."""
MAX_SIMULATED_CHANGES = 500
"""Changed paths that the event of a simulated command names."""
MAX_BULK_BYTES = 8 * 1024 * 1024
"""Bytes of files that are created together: a cancel waits until all of them are written."""


@dataclass(frozen=True)
class StepOutcome:
    """The event of a step that was executed, with its result if there is one."""

    event: dict[str, Any]
    result: Result | None = None
    is_failure: bool = False


@dataclass(frozen=True)
class StepPause:
    """The approval that a step waits for."""

    approval: Approval


class StepExecution:
    """The execution of the steps of one run, one after the other; `notify` is called when a command has output."""

    def __init__(
        self,
        services: RunServices,
        run: Run,
        approval: Approval | None,
        overlay: Files | None,
        batch: BatchLayer | None,
        notify: Callable[[], None],
    ) -> None:
        self._services = services
        self._run = run
        self._approval = approval
        self._overlay = overlay
        self._batch = batch
        self._notify = notify
        self._policy: BoundPolicy | None = None
        self._fast_path: FastPath | None = None
        self._shared = CallContext()

    def load_policy(self) -> None:
        """Load the policy that binds the caller, once for the steps of one slice."""
        self._policy = self._services.workspace.judge.bind(self._run.caller)
        # The response of a single call needs more than the fast path reads, and a dry run has files of its own.
        may_encode = self._overlay is None and self._batch is None
        if may_encode and self._run.dialect not in self._services.encoders:
            self._fast_path = self._services.workspace.pipeline.fast_path(self._policy)

    def perform_on_fast_path(
        self, steps: Sequence[Step], position: int, cancel: CancelToken
    ) -> list[StepOutcome | WapError]:
        """Return the outcomes of the first steps if the fast path takes them; if empty, `perform` the first step."""
        if self._fast_path is None or (self._approval is not None and self._approval.position >= position):
            return []
        operation = steps[0].operation
        if type(operation) is ReadFile:
            return self._read_file(self._fast_path, steps[0], operation)
        if not self._fast_path.accepts(operation):
            return []
        return self._create_files(self._fast_path, steps, position, cancel)

    def _read_file(self, fast_path: FastPath, step: Step, operation: ReadFile) -> list[StepOutcome | WapError]:
        context = self._shared_context(step.tool)
        whole = self._services.workspace.pipeline.read_fast(fast_path, operation, self._run.caller, context, step.id)
        return [] if whole is None else [StepOutcome(self._services.events.write_file_read(step.id, operation, whole))]

    def _create_files(
        self, fast_path: FastPath, steps: Sequence[Step], position: int, cancel: CancelToken
    ) -> list[StepOutcome | WapError]:
        new_files: dict[str, NewFile] = {}
        size = 0
        for number, step in enumerate(steps[: 1 if self._run.options.atomic else MAX_BULK_FILES]):
            operation = step.operation
            if not (isinstance(operation, WriteFile) and fast_path.accepts(operation)) or step.tool != steps[0].tool:
                break
            new = NewFile(position + number, step.id, operation)
            size += len(operation.content)
            if new.path in new_files or (new_files and size > MAX_BULK_BYTES):
                break
            new_files[new.path] = new
        context, files = self._shared_context(steps[0].tool), list(new_files.values())
        results = self._services.workspace.pipeline.create_in_bulk(fast_path, files, self._run.caller, context, cancel)
        write_result = self._services.events.write_result
        return [
            result if isinstance(result, WapError) else StepOutcome(write_result(new.step, new.operation, result))
            for new, result in zip(files, results, strict=False)
        ]

    def _shared_context(self, tool: str) -> CallContext:
        """Return one context for the operations of a tool that the fast path takes."""
        if self._shared.tool != tool:
            self._shared = CallContext(dialect=self._run.dialect, tool=tool, run=self._run.id)
        return self._shared

    def perform(self, step: Step, position: int, cancel: CancelToken) -> StepOutcome | StepPause:
        """Perform a step, or pause the run for approval; raise the WapError of a step that failed."""
        if self._run.options.dry_run:
            return self._simulate(step, position, cancel)
        approval = self._approval if self._approval and self._approval.position == position else None
        operation = step.operation
        try:
            if approval is not None:
                self._check_approval(approval, step)
                operation = bind_operation(operation, approval)
            return self._perform_operation(step, position, operation, approval, cancel)
        except ApprovalRequired as refusal:
            return self.pause(step, position, refusal)

    def _check_approval(self, approval: Approval, step: Step) -> None:
        """Raise ApprovalRequired if what the approval showed has changed since the decision."""
        requests, files = self._services.approval_requests, self._batch_files()
        if requests.changed_paths(approval, step, self._run.caller, is_decided=True, files=files):
            raise repeat_refusal(approval)

    def _perform_operation(
        self, step: Step, position: int, operation: Operation, approval: Approval | None, cancel: CancelToken
    ) -> StepOutcome:
        pending = None if approval is None else approval.layer
        spill: OutputSpill | None = None
        if isinstance(operation, RunCommand) and pending is None:
            spill = self._services.outputs.spill(self._run.id, position, self._notify)
        options = ExecutionOptions(
            approved=approval is not None,
            policy=self._policy,
            layer=None if self._batch is None else self._batch.open(),
            pending=pending,
            # The start of a sandbox takes time, in which an agent could change what the person approved.
            on_start=(lambda: None) if approval is None else partial(self._check_approval, approval, step),
        )
        try:
            result = self._services.workspace.pipeline.perform(
                operation, self._run.caller, self._context(step, position), cancel, spill, options
            )
        finally:
            if spill is not None:
                spill.close()
        if self._batch is not None and approval is not None and approval.layer is None:
            self._batch.approve(self._services.workspace, approval)
        event = self._services.events.write_result(step.id, operation, result)
        return StepOutcome(event, result, getattr(result, "exit_code", 0) != 0)

    def _context(self, step: Step, position: int, *, dry_run: bool = False) -> CallContext:
        return CallContext(
            dialect=self._run.dialect,
            tool=step.tool,
            run=self._run.id,
            position=position,
            step=step.id,
            dry_run=dry_run,
        )

    def _batch_files(self) -> Files | None:
        """Return the files of the batch's layer, as far as the caller may see them."""
        if self._batch is None:
            return None
        return self._batch.open().files.guarded_by(self._services.workspace.judge.bind(self._run.caller).guard)

    def pause(self, step: Step, position: int, refusal: ApprovalRequired) -> StepPause:
        """Return the approval that a refusal needs; raise RateLimited where too many of the agent's runs wait."""
        caller = self._run.caller
        if caller.token is not None and self._services.store.count_pending_runs(caller.token) >= MAX_PENDING_APPROVALS:
            discard_preview(self._services, refusal, self._batch)
            raise too_many_pending()
        return StepPause(
            self._services.approval_requests.create(
                self._run.id, position, step, caller, refusal, files=self._batch_files()
            )
        )

    def _simulate(self, step: Step, position: int, cancel: CancelToken) -> StepOutcome:
        """Perform a step where nothing of it stays, and add its verdict and its effect to the event."""
        workspace, caller, operation = self._services.workspace, self._run.caller, step.operation
        events = self._services.events
        verdict = workspace.judge.check(operation, caller)
        simulation: dict[str, Any] = {"simulated": True, "verdict": verdict.kind.value, "rule": verdict.rule}
        is_real = operation.effect is Effect.READ or (isinstance(operation, RunCommand) and not verdict.previewable)
        if verdict.kind is VerdictKind.ASK and is_real:
            # The dry run would really read the file, or run what may not run unasked even on a layer.
            event = events.write_approval(step.id, operation, verdict.reason, {"rule": verdict.rule})
            return StepOutcome({**event, "simulated": False, "verdict": verdict.kind.value})
        layer = None if self._batch is None else self._batch.open()
        files = self._overlay if layer is None else layer.files
        assert files is not None, "a dry run has an overlay or a layer"
        may_show = self._services.approval_requests.may_show(operation, caller)
        diff = preview_difference(files.guarded_by(workspace.judge.bind(caller).guard), operation) if may_show else {}
        diff = redact_value(diff, workspace.redactor.mask_known)
        options = ExecutionOptions(
            approved=operation.effect is Effect.WRITE, overlay=None if layer else self._overlay, layer=layer
        )
        context = self._context(step, position, dry_run=True)
        try:
            result = workspace.pipeline.perform(operation, caller, context, cancel, options=options)
        except WapError as error:
            if cancel.requested:
                raise
            return StepOutcome({**events.write_failure(step.id, operation, error), **simulation}, is_failure=True)
        if layer is not None and isinstance(operation, RunCommand | GitAction):
            simulation |= self._describe_layer(layer)
        event = {**events.write_result(step.id, operation, result), **diff, **simulation}
        return StepOutcome(event, result, getattr(result, "exit_code", 0) != 0)

    def _describe_layer(self, layer: Layer) -> dict[str, Any]:
        """Return what the batch has changed so far, as far as the caller may know of it."""
        workspace, caller = self._services.workspace, self._run.caller
        entries = [
            describe_change(change)
            for change in layer.read_changes()
            if change.kind is not ChangeKind.TOUCHED and workspace.judge.may_name(change.path, caller)
        ]
        more = len(entries) - MAX_SIMULATED_CHANGES
        return {"changes": entries[:MAX_SIMULATED_CHANGES], **({"more": more} if more > 0 else {})}


def discard_preview(services: RunServices, refusal: ApprovalRequired, batch: BatchLayer | None = None) -> None:
    """Remove the layer of a command whose effect nobody will be asked about."""
    if isinstance(refusal, UnapprovedEffect) and batch is None and services.workspace.layered is not None:
        services.workspace.layered.layers.remove(refusal.preview.layer)


def too_many_pending() -> RateLimited:
    return RateLimited(
        f"{MAX_PENDING_APPROVALS} runs of this agent wait for a person already.",
        hint="Have a person decide on them, or cancel them.",
        limit="waitingRuns",
        retryAfterMs=60_000,
    )
