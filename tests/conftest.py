"""For every test: hypothesis profiles, and the mark `slow` by what a test needs. Jupyter's fixtures are in tests/support."""

from __future__ import annotations

import os
import signal

import pytest
from hypothesis import HealthCheck, settings

pytest.register_assert_rewrite("tests.support")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Started in the background of a script. What is ignored is inherited, and some tests interrupt what they start.
    signal.signal(signal.SIGINT, signal.default_int_handler)

BUSY = [HealthCheck.too_slow]
"""A busy machine makes examples slowly, which is no fault of a test."""
settings.register_profile("suite", deadline=None, suppress_health_check=BUSY, derandomize=True)
settings.register_profile("quick", settings.get_profile("suite"), max_examples=10)
settings.register_profile("soak", deadline=None, suppress_health_check=BUSY, max_examples=5000)
settings.load_profile("soak" if os.environ.get("WAP_SOAK") else os.environ.get("WAP_PROFILE", "suite"))
