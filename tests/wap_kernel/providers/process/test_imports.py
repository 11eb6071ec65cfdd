"""Test the imports of the process modules, and how little a supervisor loads before its command runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from wap_kernel.providers.process import supervisor

REPOSITORY = Path(supervisor.__file__).parents[3]
LOADED = """
import sys
before = set(sys.modules)
{program}
print(*sorted(set(sys.modules) - before))
"""


def loaded(program: str, *options: str) -> set[str]:
    """The modules that a program loads in an interpreter of its own."""
    source = LOADED.format(program=program)
    done = subprocess.run([sys.executable, *options, "-c", source], cwd=REPOSITORY, stdout=subprocess.PIPE, check=True)
    return set(done.stdout.decode().split())


def test_commands_do_not_know_the_providers() -> None:
    modules = [path.stem for path in Path(supervisor.__file__).parent.glob("*.py") if path.stem != "__init__"]
    found = loaded("\n".join(f"import wap_kernel.providers.process.{module}" for module in modules))
    assert {f"wap_kernel.providers.process.{module}" for module in modules} <= found
    assert [name for name in found if name.startswith("wap_kernel.providers.") and "process" not in name] == []


@pytest.mark.skipif(sys.implementation.name != "cpython", reason="the C halves of modules are CPython's")
@pytest.mark.skipif(sys.platform != "linux", reason="there is no subreaper elsewhere")
def test_a_supervisor_loads_no_module_that_is_written_in_python() -> None:
    program = f"exec(compile(open({supervisor.__file__!r}).read(), 'supervisor', 'exec'))\nbecome_subreaper()"
    assert loaded(program, "-I", "-S") <= {"posix", "_signal", "select", "time", "_ctypes"}
