"""Programs and tests that run as an ordinary user where the tests run as root."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.agent_server import _as_ordinary_user, give
from tests.support.process_nursery import PROJECT

SECONDS = 600.0


@contextmanager
def open_user_folder() -> Iterator[Path]:
    """Yield a folder of the ordinary user, or skip the test where the tests run as one already."""
    if os.getuid() != 0:
        pytest.skip("the other tests run as an ordinary user already")
    with tempfile.TemporaryDirectory(prefix="wap-ordinary-") as name:
        folder = Path(name).resolve()
        folder.chmod(0o755)
        yield folder


def run_python(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python as the ordinary user, who owns `folder` then."""
    give(folder)
    return subprocess.run(
        [*_as_ordinary_user(folder), sys.executable, *arguments],
        cwd=PROJECT,
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "TMPDIR": str(folder),
            "PYTHONPATH": str(PROJECT),
            "PYTHONDONTWRITEBYTECODE": "1",
            **{name: value for name, value in os.environ.items() if name.startswith(("WAP_", "RUNSC_"))},
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


def run_tests(folder: Path, *arguments: str) -> None:
    """Run tests as the ordinary user, and fail with what pytest prints."""
    options = ("-q", "-x", "-p", "no:cacheprovider", f"--basetemp={folder / 'tests'}")
    done = run_python(folder, "-m", "pytest", *options, *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
