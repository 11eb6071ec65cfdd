"""The `wap` command: its table of sub-commands, and its answers to mistakes."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

from wap_kernel import __version__
from wap_kernel.cli import main


@pytest.mark.parametrize("name", [name for name, _, _ in main.SUBCOMMANDS])
def test_every_sub_command_has_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main.main([name, "--help"])
    assert ended.value.code == 0
    assert f"usage: wap {name}" in capsys.readouterr().out


def test_help_lists_every_sub_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main.main(["--help"])
    assert ended.value.code == 0
    shown = " ".join(capsys.readouterr().out.split())
    for name, text, _ in main.SUBCOMMANDS:
        assert f"{name} {text}" in shown


@pytest.mark.parametrize("module", [module for _, _, module in main.SUBCOMMANDS])
def test_modules_are_imported_only_when_asked_for(module: str) -> None:
    program = (
        f"import sys; from wap_kernel.cli.main import main; main(['nothing']); sys.exit({module!r} in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, check=False).returncode == 0
    assert callable(importlib.import_module(module).run)


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main.main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"wap {__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "advice"),
    [
        (["docter"], "Did you mean `wap doctor`?"),
        (["xyz"], "Choose one of: doctor"),
    ],
)
def test_an_unknown_sub_command(arguments: list[str], advice: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(arguments) == main.USAGE_ERROR
    assert advice in capsys.readouterr().err


def test_a_failure_is_one_line_with_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["doctor", "--provider", "firecracker"]) == main.FAILURE
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err == (
        "wap: There is no provider named 'firecracker'. Choose one of: auto, local, bubblewrap, gvisor.\n"
    )


def test_nothing_at_all_is_a_call_for_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main([]) == 0
    assert "usage: wap" in capsys.readouterr().out


@pytest.mark.parametrize(("name", "status"), [("approve", main.NOT_RUN), ("audit", main.USAGE_ERROR)])
def test_a_wrong_option(name: str, status: int, capsys: pytest.CaptureFixture[str]) -> None:
    """2 of a sub-command for runs says that a run waits for approval."""
    with pytest.raises(SystemExit) as ended:
        main.main([name, "--nonsense"])
    assert ended.value.code == status
    assert f"usage: wap {name}" in capsys.readouterr().err
