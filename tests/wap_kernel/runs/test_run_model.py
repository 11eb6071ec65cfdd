"""Random batches, approvals, denials, cancels, reverts, restarts and crashes against a simple model of runs."""

from __future__ import annotations

import asyncio
import json
import shutil
import tempfile
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, ClassVar, NoReturn, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.support.budgets import SOAK
from tests.support.run_model import Model, ModelRun, Operation, Tree
from wap_kernel.dialects.agent_spaces import operations as agent_spaces
from wap_kernel.dialects.registry import open_runner
from wap_kernel.engine.workspace import Workspace
from wap_kernel.model.caller import Caller
from wap_kernel.model.errors import Conflict, ProviderUnavailable
from wap_kernel.model.policy import CommandRule, Policy, ShellPolicy, VerdictKind
from wap_kernel.model.run import Run
from wap_kernel.runs.decisions import Decision

MACHINES, STEPS, LEAST = (50, 50, 2000) if SOAK else (8, 40, 150)
"""How many machines, of how many steps each at most; `LEAST` steps are taken in all, which is counted."""
PATIENCE = 60.0

T = TypeVar("T")
POLICY = Policy(
    name="asking", shell=ShellPolicy(rules=(CommandRule(command="rm", verdict=VerdictKind.ASK, having=("-r",)),))
)
PERSON = Caller(user="a person")

paths = st.sampled_from(["a", "b", "d/a", "d/b", "e/f/c"])
contents = st.sampled_from(["x", "xy", "yx", "zz"])
removals = st.builds("rm -rf {}".format, st.sampled_from(["d", "e"]))
commands = st.one_of(
    st.builds("printf {} > {}".format, contents, paths),
    st.builds("mv {} {}".format, st.sampled_from(["a", "b"]), st.sampled_from(["d/a", "d/b"])),
    st.builds("mkdir -p {}".format, st.sampled_from(["d", "e/empty"])),
    st.just("false"),
)


def _operation(kind: str, **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Operation]:
    return st.fixed_dictionaries({"type": st.just(kind), **fields})


edits = st.fixed_dictionaries({"oldContent": st.sampled_from(["x", "y", "zz"]), "newContent": contents})
creations = _operation("createFile", path=paths, content=contents, overwrite=st.booleans())
changes = st.one_of(
    creations,
    _operation("editFile", path=paths, edits=st.lists(edits, min_size=1, max_size=1)),
    _operation("deleteFile", path=paths),
    _operation("shell", command=commands),
)
approval_requests = _operation("shell", command=removals)
operations = st.one_of(
    creations,
    changes,
    _operation("message", content=st.just("hello")),
    _operation("readFile", path=paths),
)
batches = st.lists(operations, min_size=1, max_size=5)
asking = st.tuples(
    st.lists(operations, max_size=2), approval_requests, st.lists(st.one_of(approval_requests, operations), max_size=2)
).map(lambda parts: [*parts[0], parts[1], *parts[2]])


class Runs(RuleBasedStateMachine):
    compared: ClassVar[int] = 0
    """Times that files and states were compared with the model, which is after every step."""

    @initialize()
    def open(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="wap-model-"))
        self.root = self.folder / "root"
        self.root.mkdir()
        self.loop = asyncio.new_event_loop()
        self.model = Model()
        self._open()

    def teardown(self) -> None:
        self._close()
        self.loop.close()
        shutil.rmtree(self.folder)

    # -- what can happen

    @rule(batch=batches)
    def start(self, batch: list[Operation]) -> None:
        self._start(batch)

    @rule(batch=asking)
    def start_what_asks(self, batch: list[Operation]) -> None:
        self._start(batch)

    @rule(batch=st.one_of(batches, asking))
    def start_atomic(self, batch: list[Operation]) -> None:
        self._start(batch, atomic=True)

    @rule(batch=asking, atomic=st.booleans())
    def dry_run(self, batch: list[Operation], atomic: bool) -> None:
        run = self._do(self._begin(batch, dryRun=True, atomic=atomic))
        run = self._do(self.runner.wait(run.id, PATIENCE))
        assert run.status.is_final

    @precondition(lambda self: self.waiting)
    @rule(index=st.integers(0, 9), answer=st.sampled_from(["approved", "denied", "cancel"]), by_operation=st.booleans())
    def decide(self, index: int, answer: str, by_operation: bool) -> None:
        run_id = self.waiting[index % len(self.waiting)]
        run = self.model.runs[run_id]
        pending = self._message(run_id)["pendingApproval"]
        named = {"operation_id": pending["operationId"]} if by_operation else {"approval_id": pending["approvalId"]}
        if answer == "cancel":
            self._do(self.runner.cancel(run_id, PERSON))
            self.model.cancel(run)
        else:
            try:
                self._do(self.runner.decide(run_id, Decision(approved=answer == "approved", **named), PERSON))
            except Conflict as changed:
                # What the command names is not what was shown; nothing has happened, and it is asked anew.
                assert answer == "approved"
                again = self._message(run_id)["pendingApproval"]
                assert again["approvalId"] == changed.details["approvalId"] != pending["approvalId"]
                run.events.append(("approvalRequired", None))
                decision = Decision(approved=True, approval_id=again["approvalId"])
                self._do(self.runner.decide(run_id, decision, PERSON))
            self._do(self.runner.wait(run_id, PATIENCE))
            self.model.go(run, approved=True) if answer == "approved" else self.model.deny(run)
        with pytest.raises(Conflict):
            self._do(self.runner.decide(run_id, Decision(approved=True, approval_id=pending["approvalId"]), PERSON))

    @rule(path=paths, content=contents, how=st.sampled_from(["cancelled", "stopped", "killed"]))
    def end_in_the_middle(self, path: str, content: str, how: str) -> None:
        """A command that has written is cancelled, or the process stops or is killed."""
        first = f"printf {content} > {path}"
        begun = {"type": "shell", "command": f"{first}; touch ../begun; exec sleep 1000"}
        run = self._do(self._begin([begun, {"type": "createFile", "path": "never", "content": ""}]))
        self._do(self._until_begun())
        if how == "cancelled":
            self._do(self.runner.cancel(run.id, PERSON))
        else:
            self._restart(is_killed=how == "killed")
        self.model.runs[run.id] = cut = ModelRun([{"type": "shell", "command": first}])
        if how == "killed":
            self.model.kill(cut)
        else:
            self.model.cut(cut, "cancelled" if how == "cancelled" else "error")

    @precondition(lambda self: self.changing)
    @rule(age=st.integers(0, 9), force=st.booleans())
    def revert(self, age: int, force: bool) -> None:
        run_id = self.changing[-1 - age % len(self.changing)]
        run = self.model.runs[run_id]
        conflicts = self.model.conflicts(run)
        if not run.is_final or (conflicts and not force):
            with pytest.raises(Conflict) as refused:
                self._do(self.runner.revert(run_id, PERSON, force=force))
            if run.is_final:
                assert set(refused.value.details["paths"]) == conflicts
            return
        reverting = self._do(self.runner.revert(run_id, PERSON, force=force))
        ended = self._do(self.runner.wait(reverting.id, PATIENCE))
        assert ended.status.value == "completed", self._message(reverting.id)
        self.model.runs[reverting.id] = self.model.revert(run)

    @rule()
    def restart(self) -> None:
        self._restart()

    @precondition(lambda self: self.completed)
    @rule(age=st.integers(0, 9))
    def crash(self, age: int) -> None:
        """The process dies when all of a run is done, before it has said so."""
        run_id = self.completed[-1 - age % len(self.completed)]
        undo = "UPDATE runs SET status = 'running', owner = 'dead', completed_at = NULL WHERE id = ?"
        self.workspace.database.write(lambda connection: connection.execute(undo, (run_id,)))
        self._restart(is_killed=True)
        self._message(run_id)  # whoever asks first has it settled
        self.model.crash(self.model.runs[run_id])

    @property
    def waiting(self) -> list[str]:
        return [run_id for run_id, run in self.model.runs.items() if run.status == "awaiting_approval"]

    @property
    def completed(self) -> list[str]:
        """But for reverts."""
        return [run_id for run_id, run in self.model.runs.items() if run.status == "completed" and run.operations]

    @property
    def changing(self) -> list[str]:
        """Runs that changed something, or may have, and those that are not over."""
        runs = self.model.runs.items()
        return [run_id for run_id, run in runs if run.net or run.is_unknown or not run.is_final]

    # -- what must be true after each

    @invariant()
    def the_files_are_as_they_should_be(self) -> None:
        if hasattr(self, "model"):
            assert self._tree() == self.model.tree

    @invariant()
    def the_runs_are_as_they_should_be(self) -> None:
        for run_id, run in getattr(self, "model", Model()).runs.items():
            message = self._message(run_id)
            assert message["status"] == run.status
            if run.operations:
                assert [(event["type"], event.get("success")) for event in message["events"]] == run.events
        Runs.compared += 1

    # -- with the engine

    def _start(self, batch: list[Operation], *, atomic: bool = False) -> None:
        run = self._do(self._begin(batch, atomic=atomic))
        self._do(self.runner.wait(run.id, PATIENCE))
        self.model.runs[run.id] = ModelRun(batch, atomic)
        self.model.go(self.model.runs[run.id])

    async def _begin(self, batch: list[Operation], **options: bool) -> Run:
        sent = json.dumps({"protocolVersion": "1.0", "operations": batch, **options})
        parsed = agent_spaces.parse_operations_message(sent)
        return await self.runner.start(parsed.steps(), parsed.options(), PERSON, dialect=agent_spaces.DIALECT)

    def _message(self, run_id: str) -> Any:
        return self._do(self.runner.message(self._do(self.runner.get(run_id, PERSON)), PERSON))

    def _tree(self) -> Tree:
        found = (path for path in self.root.rglob("*"))
        return {str(path.relative_to(self.root)): None if path.is_dir() else path.read_text() for path in found}

    async def _until_begun(self) -> None:
        begun = self.folder / "begun"

        async def poll() -> None:
            while not begun.exists():  # noqa: ASYNC110 - a file of another program has no event to await
                await asyncio.sleep(0.01)

        await asyncio.wait_for(poll(), PATIENCE)
        begun.unlink()

    def _restart(self, *, is_killed: bool = False) -> None:
        """Of one that is killed nothing is stored from then on."""
        if is_killed:
            self.workspace.database.write = _refuse  # type: ignore[method-assign]
            self.workspace.database.enqueue = _refuse  # type: ignore[method-assign]
        self._close()
        self._open()

    def _open(self) -> None:
        state = str(self.folder / "state")
        self.workspace = Workspace(str(self.root), policy=POLICY, provider="local", state_dir=state)
        self.runner = open_runner(self.workspace)

    def _close(self) -> None:
        self._do(self.runner.close())
        self._do(self.workspace.close())

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)


def _refuse(_: object) -> NoReturn:
    raise ProviderUnavailable("This process is dead.")


SETTINGS = settings(
    max_examples=MACHINES,
    stateful_step_count=STEPS,
    deadline=None,
    derandomize=not SOAK,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@pytest.mark.soak
def test_no_divergence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Runs, "compared", 0)
    machines = 0
    while machines == 0 or (SOAK and _steps(machines) < LEAST):  # other machines each time
        run_state_machine_as_test(Runs, settings=SETTINGS)  # type: ignore[no-untyped-call]
        machines += MACHINES
    assert _steps(machines) >= LEAST


def _steps(machines: int) -> int:
    """At least: what is compared before a machine opens and after that is no step."""
    return Runs.compared - 2 * machines
