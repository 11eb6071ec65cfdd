"""An approval of a command that has not run yet holds for the files that its line runs, however they are named."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.provider_workspace import skip_unless_works
from tests.support.run_workspace import PERSON, Scene, play
from tests.support.script_lines import SHELL_LINES, TOOL_LINES, lay_out
from wap_kernel.engine.pipeline import Pipeline
from wap_kernel.files import path_state
from wap_kernel.model.errors import Conflict
from wap_kernel.model.operations import Operation
from wap_kernel.policy import presets
from wap_kernel.policy.commands import command_evidence
from wap_kernel.runs.decisions import Decision

ENVIRONMENT = {"GIVEN": "build.sh"}


@pytest.fixture
def scripts(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> Scene:
    """A workspace in the home folder, where every command asks before it runs."""
    lay_out(scene.root)
    monkeypatch.setenv("HOME", str(scene.root))
    scene.options["policy"] = presets.load_preset("standard")
    return scene


def spell(line: str, root: Path) -> str:
    return line.replace("ROO[T]", f"{root.parent}/w[s]").replace("ROOT", str(root)).replace("NAME", root.name)


async def ask(scene: Scene, line: str, **more: Any) -> dict[str, Any]:
    environment = ENVIRONMENT if "$GIVEN" in line else {}
    command = {"type": "shell", "id": "it", "command": spell(line, scene.root), "env": environment}
    message = await scene.run({**command, **more})
    assert message["status"] == "awaiting_approval", message
    return message


def rewrite(path: Path) -> None:
    """Change a file so that its size and its mtime stay the same."""
    before = path.stat()
    content = path.read_bytes()
    path.write_bytes(content.swapcase() if content.swapcase() != content else content + b"#")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize("line", [*SHELL_LINES, *TOOL_LINES])
def test_a_file_that_changed_since_it_was_approved_does_not_run(scripts: Scene, line: str) -> None:
    changed = {**SHELL_LINES, **TOOL_LINES}[line]

    async def scenario(scene: Scene) -> None:
        message = await ask(scene, line)
        approval = message["pendingApproval"]
        assert approval["boundTo"]
        rewrite(scene.root / changed)
        with pytest.raises(Conflict, match="Changed since it was shown") as refusal:
            await scene.decide(message["runId"], True, operation_id="it")
        assert refusal.value.details["approvalId"] != approval["approvalId"]
        assert not (scene.root / "ran").exists()

    play(scripts, scenario)


@pytest.mark.parametrize("line", SHELL_LINES)
def test_a_file_that_did_not_change_runs(scripts: Scene, line: str) -> None:
    async def scenario(scene: Scene) -> None:
        message = await ask(scene, line)
        ended = await scene.decide(message["runId"], True, operation_id="it")
        assert ended["status"] == "completed", ended
        ran = [path.read_text() for path in scene.root.rglob("ran")]
        assert any("first" in text for text in ran) or "inner" in line, ended

    play(scripts, scenario)


def replace_link(path: Path, target: str) -> None:
    path.unlink()
    path.symlink_to(target)


CHANGES: dict[str, tuple[str, Callable[[Path], object]]] = {
    "a link to a file with the same content": ("sh link.sh", lambda root: replace_link(root / "link.sh", "build.bash")),
    "another text of a link": ("sh link.sh", lambda root: replace_link(root / "link.sh", "./build.sh")),
    "a link that leads out": ("sh link.sh", lambda root: replace_link(root / "link.sh", "/etc/hostname")),
    "a new file in a folder": ("pip install ./pkg", lambda root: (root / "pkg/src/new.py").write_text("")),
    "a file less in a folder": ("pip install ./pkg", lambda root: (root / "pkg/src/part.py").unlink()),
    "a file that became a folder": ("pip install ./pkg", lambda root: replace_by_folder(root / "pkg/src/part.py")),
    "the target of a link in a folder": ("pip install ./pkg", lambda root: rewrite(root / "single.py")),
    "a new match of a pattern": ("sh b*.sh", lambda root: (root / "bad.sh").write_text("")),
    "a file that was not there": ("sh new.sh; true", lambda root: (root / "new.sh").write_text("")),
    "a module that was not there": ("python3 -m fresh", lambda root: (root / "fresh.py").write_text("")),
    "a Makefile that comes first": ("make", lambda root: (root / "GNUmakefile").write_text("")),
    "the folder of cd": ("cd sub && sh build.sh", lambda root: (root / "sub").rename(root / "gone")),
    "a new module in the environment": ("venv/bin/pip list", lambda root: (root / "venv/lib/new.py").write_text("")),
    "a package in a file of requirements": (
        "pip install -r requirements.txt",
        lambda root: rewrite(root / "pkg/setup.py"),
    ),
    "anything where a name is computed": ("sh $(cat list)", lambda root: rewrite(root / "sub/deep/build.sh")),
}


def replace_by_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_what_is_named_asks_again(scripts: Scene, change: str) -> None:
    line, perform = CHANGES[change]

    async def scenario(scene: Scene) -> None:
        message = await ask(scene, line)
        perform(scene.root)
        with pytest.raises(Conflict, match="Changed since it was shown"):
            await scene.decide(message["runId"], True, operation_id="it")

    play(scripts, scenario)


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_between_the_decision_and_the_start_asks_again(scripts: Scene, change: str) -> None:
    line, perform = CHANGES[change]

    async def scenario(scene: Scene) -> None:
        message = await ask(scene, line)
        run = await scene.runner.decide(message["runId"], Decision(True, operation_id="it"), PERSON)
        perform(scene.root)  # before the task of the run has had its turn
        message = await scene.message(await scene.runner.wait(run.id, 30))
        assert [event["type"] for event in message["events"]] == ["approvalRequired"] * 2, message
        assert message["status"] == "awaiting_approval"

    play(scripts, scenario)


@pytest.mark.parametrize(
    ("provider", "isolation"), [("local", "layer"), ("bubblewrap", "layer"), ("bubblewrap", "shared")]
)
def test_a_change_while_the_sandbox_starts_asks_again(
    scripts: Scene, monkeypatch: pytest.MonkeyPatch, provider: str, isolation: str
) -> None:
    """The agent changes the file as soon as the execution has compared it with what was shown."""
    skip_unless_works(provider)
    perform = Pipeline.perform

    def swap_and_perform(self: Pipeline, operation: Operation, *more: Any) -> Any:
        rewrite(scripts.root / "pkg/setup.py")
        return perform(self, operation, *more)

    async def scenario(scene: Scene) -> None:
        message = await ask(scene, "pip install --no-index --target out ./pkg", isolation=isolation)
        monkeypatch.setattr(Pipeline, "perform", swap_and_perform)
        message = await scene.decide(message["runId"], True, operation_id="it")
        assert [event["type"] for event in message["events"]] == ["approvalRequired"] * 2, message
        monkeypatch.undo()
        message = await scene.decide(message["runId"], True, operation_id="it")
        assert [event["type"] for event in message["events"]] == ["approvalRequired"] * 2 + ["shell"], message

    scripts.options["provider"] = provider
    play(scripts, scenario)


@pytest.mark.parametrize("line", ["sh build.sh", "cd sub && sh build.sh", "sh ROOT/sub/*.sh", "make"])
def test_other_files_may_change(scripts: Scene, line: str) -> None:
    async def scenario(scene: Scene) -> None:
        message = await ask(scene, line)
        for name in ("env.sh", "unrelated.ipynb", "sub/other.txt"):
            (scene.root / name).write_text("a person saves this")
        os.utime(scene.root / "build.sh", (1, 1))  # it holds what it held
        assert (await scene.decide(message["runId"], True, operation_id="it"))["status"] == "completed"

    play(scripts, scenario)


def test_a_large_file_is_bound_by_its_stamps(scripts: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(path_state, "MAX_FILE_HASHED_BYTES", 4)

    async def scenario(scene: Scene) -> None:
        message = await ask(scene, "sh build.sh")
        rewrite(scene.root / "build.sh")
        with pytest.raises(Conflict, match=r"build\.sh"):
            await scene.decide(message["runId"], True, operation_id="it")

    play(scripts, scenario)


@pytest.mark.parametrize("limit", ["MAX_TREE_HASHES", "MAX_TREE_HASHED_BYTES"])
def test_files_of_a_large_folder_are_bound_by_their_stamps(
    scripts: Scene, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    monkeypatch.setattr(path_state, limit, 0)

    async def scenario(scene: Scene) -> None:
        message = await ask(scene, "pip install ./pkg")
        rewrite(scene.root / "pkg/setup.py")
        with pytest.raises(Conflict, match="pkg/"):
            await scene.decide(message["runId"], True, operation_id="it")

    play(scripts, scenario)


def test_an_approval_says_which_folder_is_too_large_to_bind(scripts: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(path_state, "MAX_TREE_ENTRIES", 5)

    async def scenario(scene: Scene) -> None:
        approval = (await ask(scene, "pip install ./pkg ./more build.sh"))["pendingApproval"]
        assert (approval["boundTo"], approval["boundToCount"]) == (["build.sh", "more/"], 2)
        assert approval["notBound"] == ["pkg/"]

    play(scripts, scenario)


def test_a_walk_that_takes_too_long_is_no_evidence(scripts: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command_evidence, "EVIDENCE_SECONDS", 0.0)

    async def scenario(scene: Scene) -> None:
        approval = (await ask(scene, "pip install ./pkg; sh build.sh"))["pendingApproval"]
        assert (approval["boundTo"], approval["notBound"]) == (["build.sh"], ["pkg/"])

    play(scripts, scenario)


def test_an_approval_names_the_first_files_and_counts_the_rest(scripts: Scene) -> None:
    for number in range(70):
        (scripts.root / f"step{number:02}.sh").write_text("true\n")

    async def scenario(scene: Scene) -> None:
        approval = (await ask(scene, "sh step*.sh"))["pendingApproval"]
        assert approval["boundTo"] == [f"step{number:02}.sh" for number in range(50)]
        assert approval["boundToCount"] == 70

    play(scripts, scenario)


def test_an_approval_of_a_line_that_names_no_file_is_bound_to_none(scripts: Scene) -> None:
    async def scenario(scene: Scene) -> None:
        approval = (await ask(scene, "pip install numpy"))["pendingApproval"]
        assert not {"boundTo", "boundToCount", "notBound"} & approval.keys()

    play(scripts, scenario)


def test_the_variables_of_a_command_are_bound_with_it(scripts: Scene) -> None:
    """A stored approval does not hold for the same line with other variables."""

    async def scenario(scene: Scene) -> None:
        message = await ask(scene, "sh $GIVEN", env={"GIVEN": "env.sh"})
        assert message["pendingApproval"]["env"] == {"GIVEN": "env.sh"}
        assert message["pendingApproval"]["boundTo"] == ["env.sh"]

    play(scripts, scenario)
