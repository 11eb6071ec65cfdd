"""For every test: hypothesis profiles, and the mark `slow` by where a test is and what it needs."""

from __future__ import annotations

import gc
import os
import signal
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

pytest.register_assert_rewrite("tests.support")
sys.path.insert(0, str(Path(__file__).parent / "support" / "fast_imports"))

os.fsync = lambda _: None
"""Wait for no disk: no test cuts the power. The tests of what is synced put a function of their own here."""

sys.dont_write_bytecode = False
"""Keep what pytest compiles, as the Makefile does: it rewrites every assertion."""

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Started in the background of a script. What is ignored is inherited, and some tests interrupt what they start.
    signal.signal(signal.SIGINT, signal.default_int_handler)

BUSY = [HealthCheck.too_slow]
"""A busy machine makes examples slowly, which is no fault of a test."""
settings.register_profile("suite", deadline=None, suppress_health_check=BUSY, derandomize=True)
settings.register_profile("quick", settings.get_profile("suite"), max_examples=10)
settings.register_profile("soak", deadline=None, suppress_health_check=BUSY, max_examples=5000)
settings.load_profile("soak" if os.environ.get("WAP_SOAK") else os.environ.get("WAP_PROFILE", "suite"))

TESTS = Path(__file__).parent
SLOW = tuple(
    str(TESTS / path)
    for path in (
        *("browser", "jupyter_ext", "scenarios", "test_benchmarks.py", "test_notebooks.py", "test_packaging.py"),
        *("wap_kernel/cli", "wap_kernel/git", "wap_kernel/notebook/kernel", "wap_kernel/notebook/magics"),
        "wap_kernel/providers",
        *("wap_kernel/dialects/mcp/test_line_reader.py", "wap_kernel/redaction/test_results.py"),
    )
)
"""Where tests start servers, kernels, browsers, sandboxes or commands."""
SLOW_FIXTURES = {"backend", "connected", "make_scene", "on_server", "provided", "server", "team"}
"""Servers, and providers that confine."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        fixtures = SLOW_FIXTURES.intersection(getattr(item, "fixturenames", ()))
        if fixtures or item.get_closest_marker("soak") or str(item.path).startswith(SLOW):
            item.add_marker(pytest.mark.slow)


def pytest_collection_finish() -> None:
    """Spare the garbage collector the modules and tests, which stay until the end."""
    gc.collect()
    gc.freeze()
