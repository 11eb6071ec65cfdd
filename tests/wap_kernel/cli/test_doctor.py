"""`wap doctor` on this machine, and on machines that lack something."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from tests.support.provider_workspace import skip_unless_works
from wap_kernel.cli import doctor, main
from wap_kernel.cli.doctor import Finding, examine_folder, render_report, to_dict
from wap_kernel.engine.jupyter_config import read_settings
from wap_kernel.files.contained import openat2
from wap_kernel.files.contained.root import Root
from wap_kernel.files.search import landlock, ripgrep_program
from wap_kernel.files.search.ripgrep_program import RipgrepProgram
from wap_kernel.model.errors import Code, ProviderUnavailable, WapError
from wap_kernel.policy.paths import sandbox_masks
from wap_kernel.providers import resource_limits, selection
from wap_kernel.providers.base import Probe
from wap_kernel.providers.layers import probe as layer_probe
from wap_kernel.providers.resource_limits import ControlGroups

WORKING = Probe("bubblewrap", True, "bubblewrap 1.2.3", promises={"network": True, "memory": False})
BROKEN = Probe("bubblewrap", False, "no user namespaces", fix="sysctl -w something=1")
ABSENT = Probe("gvisor", False, "runsc was not found", fix="apt install runsc")


@pytest.fixture(autouse=True)
def nobodys_configuration(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the user of this machine has configured."""
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(tmp_path_factory.mktemp("configuration")))


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Callable[[Probe], None]:
    """Sets what the probe of bubblewrap says; gVisor is absent, which also saves its time."""

    def set_probe(bubblewrap: Probe) -> None:
        local = selection.probe("local")
        probes = {"local": local, "bubblewrap": bubblewrap, "gvisor": ABSENT}
        monkeypatch.setattr(selection, "probe", probes.__getitem__)

    return set_probe


def wap(*arguments: str) -> int:
    return main.main(["doctor", *arguments])


def test_it_tells_about_everything_on_this_machine(tmp_path: Path) -> None:
    report = examine_folder(str(tmp_path), "local")
    names = [finding.name for finding in report.machine]
    assert names == ["platform", "openat2", "Landlock", "rg", "git", "cgroups", "layers"]
    assert [probe.name for probe in report.providers] == ["local", "bubblewrap", "gvisor"]
    assert (report.configured.works, report.configured.chosen, report.configured.confines) == (True, "local", False)
    assert not list(tmp_path.iterdir())


LACKING: list[tuple[str, object, str, object]] = [
    ("openat2", openat2, "load", lambda: None),
    ("Landlock", landlock, "read_abi", lambda: 0),
    ("rg", ripgrep_program, "find_program", lambda: None),
    ("rg", ripgrep_program, "find_program", lambda: RipgrepProgram("/usr/bin/rg", "13.0.0")),
    (
        "rg",
        ripgrep_program,
        "find_program",
        Mock(side_effect=ProviderUnavailable("another digest", hint="reinstall")),
    ),
    ("git", shutil, "which", lambda _: None),
    ("cgroups", resource_limits, "find_groups", ControlGroups),
    ("platform", sys, "platform", "darwin"),
]


@pytest.mark.parametrize(
    ("name", "owner", "attribute", "value"), LACKING, ids=[f"{case[0]}-{case[2]}" for case in LACKING]
)
def test_what_is_lacking_is_told_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch, name: str, owner: object, attribute: str, value: object
) -> None:
    check = next(check for check in doctor.MACHINE if check().name == name)
    with monkeypatch.context() as lacking:
        lacking.setattr(owner, attribute, value)
        finding = check()
    assert finding.state != "ok"
    assert finding.fix


def test_layers_that_work_are_told_with_their_place(
    tmp_path: Path, machine: Callable[[Probe], None], capsys: pytest.CaptureFixture[str]
) -> None:
    skip_unless_works("bubblewrap")
    machine(WORKING)
    (tmp_path / "ws").mkdir()
    settings = {"state_dir": str(tmp_path / "some/state")}
    report = examine_folder(str(tmp_path / "ws"), "bubblewrap", settings)
    (finding,) = (finding for finding in report.machine if finding.name == "layers")
    assert (finding.state, finding.fix) == ("ok", None)
    assert f"overlayfs in {tmp_path}/some/state/layers, mounted with" in finding.detail
    assert [path.name for path in tmp_path.iterdir()] == ["ws"], "a trial leaves nothing behind"
    assert any("commands are confined, and run on layers." in line for line in render_report(report))


def test_layers_that_do_not_work_are_told_with_what_to_do(
    tmp_path: Path, machine: Callable[[Probe], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    skip_unless_works("bubblewrap")
    machine(WORKING)
    (tmp_path / "ws").mkdir()
    (tmp_path / "state").touch()
    monkeypatch.setattr(layer_probe, "FALLBACKS", ())
    report = examine_folder(str(tmp_path / "ws"), "bubblewrap", {"state_dir": str(tmp_path / "state")})
    (finding,) = (finding for finding in report.machine if finding.name == "layers")
    assert finding.state == "limited"
    assert "no layer can be mounted: " in finding.detail
    assert "WapExtension.state_dir" in (finding.fix or "")
    assert report.configured.works
    assert any("commands are confined, and run in the folder itself." in line for line in render_report(report))


def test_a_configured_provider_that_cannot_start_fails(
    tmp_path: Path, machine: Callable[[Probe], None], capsys: pytest.CaptureFixture[str]
) -> None:
    machine(BROKEN)
    assert wap("--provider", "bubblewrap", "--root", str(tmp_path)) == 1
    shown = capsys.readouterr().out
    assert "cannot start here" in shown
    assert "no user namespaces" in shown
    assert "to fix it: sysctl -w something=1" in shown


def test_auto_without_a_sandbox_works_and_says_that_nothing_is_confined(
    tmp_path: Path, machine: Callable[[Probe], None], capsys: pytest.CaptureFixture[str]
) -> None:
    machine(BROKEN)
    assert wap("--root", str(tmp_path)) == 0
    shown = capsys.readouterr().out
    assert "auto takes local." in shown
    assert "commands are NOT confined" in shown


def test_a_provider_that_cannot_serve_this_folder_fails(machine: Callable[[Probe], None]) -> None:
    machine(WORKING)
    report = examine_folder("/", "bubblewrap")
    assert not report.configured.works
    assert report.configured.fix


def test_what_is_hidden_here_is_tried_with_it(tmp_path: Path, machine: Callable[[Probe], None]) -> None:
    skip_unless_works("bubblewrap")
    machine(WORKING)
    for number, said in ((1, "1 path of this folder is"), (2, "2 paths of this folder are")):
        (tmp_path / f"{number}.pem").touch()
        found = examine_folder(str(tmp_path), "bubblewrap").configured
        assert found.works and f" {said} hidden from commands" in found.detail
    for number in range(sandbox_masks.MAX_MASKS + 1):
        (tmp_path / f"{number}.pem").touch()
    found = examine_folder(str(tmp_path), "bubblewrap").configured
    assert not found.works and "201 paths" in found.detail and "*.pem" in str(found.fix)
    assert not examine_folder(str(tmp_path), "local").configured.fix


def test_a_folder_that_may_only_be_read_is_tried_as_such(tmp_path: Path, machine: Callable[[Probe], None]) -> None:
    skip_unless_works("bubblewrap")
    machine(WORKING)
    (tmp_path / ".cws-policy.json").write_text('{"filesystem": {"access": "read"}}')
    (tmp_path / "below").mkdir()
    (tmp_path / "below/.env").touch()
    found = examine_folder(str(tmp_path)).configured
    assert (found.works, found.chosen) == (True, "bubblewrap")
    assert "1 path of this folder is hidden" in found.detail


def test_jupyters_configuration_names_the_provider_and_the_policy(
    tmp_path: Path, machine: Callable[[Probe], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    machine(BROKEN)
    folder = tmp_path / "config"
    folder.mkdir()
    (folder / "jupyter_server_config.py").write_text("c.WapExtension.provider = 'bubblewrap'\n")
    (folder / "jupyter_wap_config.json").write_text('{"WapExtension": {"preset": "restrictive", "policy": {"x": 1}}}')
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(folder))
    assert wap("--root", str(tmp_path)) == 1
    assert wap("--root", str(tmp_path), "--provider", "local") == 0
    report = examine_folder(str(tmp_path), "local", read_settings())
    assert [(finding.name, finding.state) for finding in report.policy] == [("restrictive", "missing")]


SAID: list[tuple[str, dict[str, object]]] = [
    (
        "c.WapExtension.policy.update({'filesystem': {'access': 'read'}})",
        {"policy": {"filesystem": {"access": "read"}}},
    ),
    (
        "c.WapExtension.preset = 'Standard'; c.WapExtension.provider = 'Local'",
        {"preset": "Standard", "provider": "Local"},
    ),
    ("c.WapExtension.policy; c.WapExtension.provider", {}),
]


@pytest.mark.parametrize(("said", "means"), SAID, ids=[case[0] for case in SAID])
def test_whatever_the_server_takes_from_a_configuration_is_taken(
    tmp_path: Path,
    machine: Callable[[Probe], None],
    monkeypatch: pytest.MonkeyPatch,
    said: str,
    means: dict[str, object],
) -> None:
    machine(BROKEN)
    (tmp_path / "jupyter_server_config.py").write_text(said)
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(tmp_path))
    assert read_settings() == means
    report = examine_folder(str(tmp_path), None, read_settings())
    assert report.configured.chosen == "local"
    assert [(finding.name, finding.state) for finding in report.policy] == [("standard", "ok")]


@pytest.mark.parametrize("absent", ["jwt", "cryptography", None])
def test_a_github_app_needs_its_extra(
    tmp_path: Path, machine: Callable[[Probe], None], monkeypatch: pytest.MonkeyPatch, absent: str | None
) -> None:
    machine(BROKEN)
    app = {"git": {"githubApp": {"id": "1", "keyFile": "/etc/key.pem"}}}
    if absent is not None:
        monkeypatch.setitem(sys.modules, absent, None)
    finding = next(one for one in examine_folder(str(tmp_path), "local", app).machine if one.name == "GitHub App")
    if absent is None:
        assert (finding.state, finding.fix) == ("ok", None)
    else:
        assert (finding.state, finding.fix) == ("missing", "pip install 'wap-kernel[github]'")
        assert "not installed" in finding.detail


@pytest.mark.parametrize("git", [{}, {"tokenFile": "/etc/token"}, "wrong"], ids=repr)
def test_without_a_github_app_its_extra_is_not_mentioned(
    tmp_path: Path, machine: Callable[[Probe], None], git: object
) -> None:
    machine(BROKEN)
    report = examine_folder(str(tmp_path), "local", {"git": git})
    assert "GitHub App" not in [finding.name for finding in report.machine]


def test_a_configured_state_folder_is_kept_from_commands(
    tmp_path: Path, machine: Callable[[Probe], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    machine(BROKEN)
    secrets: list[str] = []
    choose_really = selection.choose

    def noted(name: str, root: Root, **given: Any) -> selection.ProviderChoice:
        secrets.extend(given["secrets"])
        return choose_really(name, root, **given)

    monkeypatch.setattr(selection, "choose", noted)
    examine_folder(str(tmp_path), "local", {"state_dir": str(tmp_path / "state")})
    assert str(tmp_path / "state") in secrets


def test_promises_are_shown_as_held_or_not(tmp_path: Path, machine: Callable[[Probe], None]) -> None:
    machine(WORKING)
    report = examine_folder(str(tmp_path), "local")
    rows = {line[2:50].strip(): line[50:].split("  ") for line in render_report(report)}
    words = {text: [word.strip() for word in row if word.strip()] for text, row in rows.items()}
    assert words[doctor.PROMISES["network"]] == ["not held", "held", "-"]
    assert words[f"at most {report.limits.memory} bytes of memory"] == ["not held", "not held", "-"]


def test_for_programs(tmp_path: Path, machine: Callable[[Probe], None], capsys: pytest.CaptureFixture[str]) -> None:
    machine(WORKING)
    assert wap("--json", "--provider", "local", "--root", str(tmp_path)) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer == json.loads(json.dumps(to_dict(examine_folder(str(tmp_path), "local"))))
    assert (answer["ok"], answer["auto"], answer["root"]) == (True, "bubblewrap", str(tmp_path))
    assert {finding["name"] for finding in answer["machine"]} >= {"rg", "git"}


def test_policy_files_in_force(tmp_path: Path, machine: Callable[[Probe], None]) -> None:
    machine(BROKEN)
    (tmp_path / ".cws-policy.json").write_text("{}")
    assert _state(tmp_path) == "ok"
    (tmp_path / ".cws-policy.json").write_text("{")
    assert _state(tmp_path) == "missing"


def _state(root: Path) -> str:
    findings: dict[str, Finding] = {finding.name: finding for finding in examine_folder(str(root), "local").policy}
    assert findings["standard"].state == "ok"
    return findings[".cws-policy.json"].state


@pytest.mark.parametrize(
    ("root", "provider", "code"),
    [
        ("missing", "local", Code.FILE_NOT_FOUND),
        (".", "firecracker", Code.INVALID_ARGUMENT),
    ],
)
def test_what_cannot_be_examined(tmp_path: Path, root: str, provider: str, code: Code) -> None:
    with pytest.raises(WapError) as refusal:
        examine_folder(str(tmp_path / root), provider)
    assert refusal.value.code is code
