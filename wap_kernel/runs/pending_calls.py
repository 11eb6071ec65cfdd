"""Turn a single call that needs approval into a run of one operation that waits for a person. On threads."""

from __future__ import annotations

from wap_kernel.model.caller import Caller
from wap_kernel.model.errors import ApprovalRequired
from wap_kernel.model.limits import MAX_PENDING_APPROVALS
from wap_kernel.model.run import Approval, BatchOptions, RunStatus, Step
from wap_kernel.runs.run_creation import new_run_id
from wap_kernel.runs.services import RunServices, describe_approval
from wap_kernel.runs.step_execution import discard_preview, too_many_pending
from wap_kernel.runs.store.records import NewRun, sender_key


class PendingCalls:
    """The single calls that wait for a person, each stored as a run."""

    def __init__(self, services: RunServices) -> None:
        self._services = services
        self._shared: set[str] = set()

    def is_shared(self, run_id: str) -> bool:
        """Return whether several calls wait for the same approval; then it does not end with one of them."""
        return run_id in self._shared

    def request_approval(self, step: Step, caller: Caller, dialect: str, refusal: ApprovalRequired) -> Approval:
        """Store a run that waits for approval, or return the approval that the same call waits for already."""
        services = self._services
        pending = self._find_same_call(step, caller, dialect)
        if pending is not None:
            discard_preview(services, refusal)
            self._shared.add(pending.run)
            return pending
        if caller.token is not None and services.store.count_pending_runs(caller.token) >= MAX_PENDING_APPROVALS:
            discard_preview(services, refusal)
            raise too_many_pending()
        identifier = new_run_id()
        approval = services.approval_requests.create(identifier, 0, step, caller, refusal)
        if approval.layer is not None and services.workspace.layered is not None:
            services.workspace.layered.assign(approval.layer, identifier)
        reason = str(approval.details["reason"])
        event = services.events.write_approval(step.id, step.operation, reason, describe_approval(approval))
        options = BatchOptions(call=step.tool)
        new = NewRun(identifier, caller, dialect, options, (step,), None, RunStatus.AWAITING_APPROVAL)
        services.store.create(new, approval, [event])
        return approval

    def _find_same_call(self, step: Step, caller: Caller, dialect: str) -> Approval | None:
        """Return the pending approval of the same call by the same sender, if what it shows has not changed."""
        services = self._services
        known = set(self._shared)  # copied before the query, which may miss a run that another call adds meanwhile
        headers = services.store.with_status(RunStatus.AWAITING_APPROVAL)
        self._shared -= known.difference(header.id for header in headers)
        for header in headers:
            if header.dialect != dialect or sender_key(header.caller) != sender_key(caller) or header.count != 1:
                continue
            pending = services.store.pending_approval(header.id)
            if pending is None or services.approval_requests.has_expired(pending):
                continue
            is_same = services.store.require(header.id).steps[0] == step
            if is_same and not services.approval_requests.changed_paths(pending, step, caller):
                return pending
        return None
