"""A sandbox starts with the masks of the command before; no command runs under masks that are out of date."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.ordinary_user import open_user_folder, run_tests
from tests.support.run_workspace import Scene, play
from wap_kernel.policy import presets
from wap_kernel.policy.paths import sandbox_masks
from wap_kernel.providers.bubblewrap import BubblewrapProvider

SHOW = {"type": "shell", "command": "cat .env .env.* */.env 2>&1; echo >> ran"}
SECRET = "the secret"


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    root = tmp_path / "root"
    for folder in ("a", "b"):
        (root / folder).mkdir(parents=True)
    (root / ".env").write_text(SECRET)
    options: dict[str, Any] = {"provider": "bubblewrap", "policy": presets.load_preset("standard")}
    return Scene(root, tmp_path / "state", **options)


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of masks of each sandbox that was started."""
    found: list[int] = []
    start = BubblewrapProvider._start

    def count(provider: BubblewrapProvider, stack: Any, command: Any, *more: Any) -> Any:
        found.append(len(command.confinement.hidden))
        return start(provider, stack, command, *more)

    monkeypatch.setattr(BubblewrapProvider, "_start", count)
    return found


async def show(scene: Scene) -> str:
    (event,) = (await scene.run(SHOW))["events"]
    assert event["success"], event
    return str(event["stdout"])


def count_runs(scene: Scene) -> int:
    """Return how many commands have run: a sandbox that was given up has run none."""
    return len((scene.root / "ran").read_text())


def test_a_secret_that_appears_between_two_commands_is_hidden(scene: Scene, starts: list[int]) -> None:
    async def scenario(scene: Scene) -> None:
        assert SECRET not in await show(scene)
        for path in ("a/.env", ".env.local"):
            (scene.root / path).write_text(SECRET)
            assert SECRET not in await show(scene)
        assert SECRET not in await show(scene)

    play(scene, scenario)
    # Each new secret is found while a sandbox without its mask starts, which is given up.
    assert starts == [1, 1, 2, 2, 3, 3]
    assert count_runs(scene) == 4


def test_a_secret_that_disappears_between_two_commands(scene: Scene, starts: list[int]) -> None:
    async def scenario(scene: Scene) -> None:
        await show(scene)
        (scene.root / ".env").unlink()
        assert "No such file" in await show(scene)

    play(scene, scenario)
    assert starts[-1] == 0
    assert count_runs(scene) == 2


def test_a_secret_that_appears_during_the_check_is_hidden(
    scene: Scene, starts: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The walk of the check runs while the sandbox starts, and counts whatever is there before it."""
    begin: list[Callable[[], object]] = []
    run = sandbox_masks._Search.run

    def run_after(search: Any, index: Any) -> None:
        for act in begin:
            act()
        begin.clear()
        run(search, index)

    monkeypatch.setattr(sandbox_masks._Search, "run", run_after)

    async def scenario(scene: Scene) -> None:
        await show(scene)
        begin.append(lambda: (scene.root / "b/.env").write_text(SECRET))
        assert SECRET not in await show(scene)

    play(scene, scenario)
    assert starts == [1, 1, 2]
    assert count_runs(scene) == 2


@pytest.mark.skipif(os.geteuid() == 0, reason="root enters every folder")
def test_a_folder_with_a_secret_that_is_closed_between_two_commands(scene: Scene) -> None:
    """The predicted mask lies in a folder that cannot be entered any more, so the sandbox cannot even be prepared."""

    async def scenario(scene: Scene) -> None:
        (scene.root / "a/.env").write_text(SECRET)
        await show(scene)
        (scene.root / "a").chmod(0)
        assert SECRET not in await show(scene)
        (scene.root / "a").chmod(0o700)
        assert SECRET not in await show(scene)

    play(scene, scenario)
    assert count_runs(scene) == 3


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs it as another user")
def test_as_an_ordinary_user() -> None:
    with open_user_folder() as folder:
        run_tests(folder, __file__)
