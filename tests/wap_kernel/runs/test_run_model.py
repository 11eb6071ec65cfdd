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
from wap_kernel.dialects.wap import tools as wap
from wap_kernel.engine.workspace import Workspace
from wap_kernel.model.caller import Caller
from wap_kernel.model.errors import Conflict, ProviderUnavailable, WapError
from wap_kernel.model.policy import CommandRule, Policy, ShellPolicy, VerdictKind
from wap_kernel.model.run import Run
from wap_kernel.runs.decisions import Decision

MACHINES, STEPS, LEAST = (50, 50, 2000) if SOAK else (5, 40, 100)
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

    @rule(operation=st.one_of(creations, _operation("deleteFile", path=paths), _operation("shell", command=commands)))
    def call(self, operation: Operation) -> None:
        """A single call, which is a run as well if it changes something."""
        tool, body = _as_call(operation)
        made, success = self.model.perform(operation)
        try:
            answer = json.loads(self._do(wap.call_tool(tool, body, self.runner, PERSON)))
        except WapError as error:
            assert not success, error.to_dict()
            assert "runId" not in error.details
            return
        assert success == (answer.get("exitCode", 0) == 0)
        if made.changes:
            self.model.runs[answer["runId"]] = made

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
        elif answer == "denied":
            self._do(self.runner.decide(run_id, Decision(approved=False, **named), PERSON))
            self._do(self.runner.wait(run_id, PATIENCE))
            self.model.deny(run)
        else:
            self._do(self.runner.decide(run_id, Decision(approved=True, **named), PERSON))
            self._do(self.runner.wait(run_id, PATIENCE))
            if not self.model.approve(run):
                self.model.follow(run, self._message(run_id), self._tree())
        with pytest.raises(Conflict):
            self._do(self.runner.decide(run_id, Decision(approved=True, approval_id=pending["approvalId"]), PERSON))

    @rule(path=paths, content=contents, how=st.sampled_from(["cancelled", "stopped", "killed"]), atomic=st.booleans())
    def end_in_the_middle(self, path: str, content: str, how: str, atomic: bool) -> None:
        """A command that has written is cancelled, or the process stops or is killed."""
        first = f"printf {content} > {path}"
        begun = {"type": "shell", "command": f"{first}; echo begun; exec sleep 1000"}
        batch = [begun, {"type": "createFile", "path": "never", "content": ""}]
        run = self._do(self._begin(batch, atomic=atomic))
        self._do(self._wait_for_output(run.id))
        if how == "cancelled":
            self._do(self.runner.cancel(run.id, PERSON))
        else:
            self._restart(is_killed=how == "killed")
        self.model.runs[run.id] = cut = ModelRun([{"type": "shell", "command": first}], atomic)
        self.model.cut(cut, how)
        if atomic:
            cut.events.append(("error", None))

    @precondition(lambda self: self.cancelled)
    @rule(index=st.integers(0, 9))
    def apply_what_was_left(self, index: int) -> None:
        run_id = self.cancelled[index % len(self.cancelled)]
        run = self.model.runs[run_id]
        applying = self._do(self.runner.apply(run_id, None, PERSON))
        ended = self._message(self._do(self.runner.wait(applying.id, PATIENCE)).id)
        assert ended["status"] == "completed"
        made = self.model.apply_left(run)
        if ended["events"][0]["success"]:
            assert made.changes
            self.model.runs[applying.id] = made
        else:
            assert not made.changes, "only where its folder is gone"

    @precondition(lambda self: self.changing)
    @rule(age=st.integers(0, 9), force=st.booleans())
    def revert(self, age: int, force: bool) -> None:
        run_id = self.changing[-1 - age % len(self.changing)]
        run = self.model.runs[run_id]
        is_clean = run.is_final and self.model.is_clean(run)
        try:
            reverting = self._do(self.runner.revert(run_id, PERSON, force=force))
        except Conflict as refused:
            assert not is_clean
            assert run.is_final is ("paths" in refused.details)
            return
        assert run.is_final
        ended = self._do(self.runner.wait(reverting.id, PATIENCE))
        assert ended.status.value == "completed", self._message(reverting.id)
        made = ModelRun([], status="completed")
        if is_clean:
            made = self.model.revert(run)
        else:  # by force, or since what was changed is as it was all the same
            self.model.take_over(made, self._tree(), run.changes)
        self.model.runs[reverting.id] = made

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
        message = self._message(run_id)  # whoever asks first has it recovered
        run = self.model.runs[run_id]
        if run.atomic and (not run.changes or run.is_free):  # it may have touched folders
            run.status = message["status"]
            run.events = [(event["type"], event.get("success")) for event in message["events"]]
        else:
            self.model.crash(run)

    @property
    def waiting(self) -> list[str]:
        return [run_id for run_id, run in self.model.runs.items() if run.status == "awaiting_approval"]

    @property
    def completed(self) -> list[str]:
        """But for reverts."""
        return [run_id for run_id, run in self.model.runs.items() if run.status == "completed" and run.operations]

    @property
    def cancelled(self) -> list[str]:
        """Runs that a person can still apply."""
        return [run_id for run_id, run in self.model.runs.items() if run.is_waiting_to_apply]

    @property
    def changing(self) -> list[str]:
        """Runs that changed something, or may have, and those that are not over."""
        return [run_id for run_id, run in self.model.runs.items() if run.changes or not run.is_final]

    # -- what must be true after each

    @invariant()
    def the_files_are_as_they_should_be(self) -> None:
        if hasattr(self, "model"):
            found = self._tree()
            assert found == self.model.tree, f"{found} instead of {self.model.tree}"

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

    async def _wait_for_output(self, run_id: str) -> None:
        async for event in self.runner.stream_events(run_id, None, PERSON):
            if event.name == "output":
                return

    def _restart(self, *, is_killed: bool = False) -> None:
        """Of one that is killed nothing is stored from then on."""
        if is_killed:
            self.workspace.database.write = _refuse  # type: ignore[method-assign]
            self.workspace.database.enqueue = _refuse  # type: ignore[method-assign]
        self._close()
        self._open()

    def _open(self) -> None:
        state = str(self.folder / "state")
        self.workspace = Workspace(str(self.root), policy=POLICY, provider="bubblewrap", state_dir=state)
        self.runner = open_runner(self.workspace)

    def _close(self) -> None:
        self._do(self.runner.close())
        self._do(self.workspace.close())

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)


def _as_call(operation: Operation) -> tuple[str, bytes]:
    """The tool and the body of the same operation as a single call."""
    if operation["type"] == "shell":
        return "executeCommand", json.dumps({"command": operation["command"]}).encode()
    if operation["type"] == "deleteFile":
        return "deleteFile", json.dumps({"path": operation["path"]}).encode()
    mode = "overwrite" if operation["overwrite"] else "create"
    body = {"path": operation["path"], "content": operation["content"], "mode": mode, "createDirectories": True}
    return "writeFile", json.dumps(body).encode()


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
