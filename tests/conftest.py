"""For every test: Jupyter's fixtures, and property tests that try the same examples in every run."""

from __future__ import annotations

import os
import signal

from hypothesis import HealthCheck, settings

pytest_plugins = ["pytest_jupyter.jupyter_server"]

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Started in the background of a script. What is ignored is inherited, and some tests interrupt what they start.
    signal.signal(signal.SIGINT, signal.default_int_handler)

BUSY = [HealthCheck.too_slow]
"""That examples take long to make says only that."""
settings.register_profile("suite", deadline=None, suppress_health_check=BUSY, derandomize=True)
settings.register_profile("soak", deadline=None, suppress_health_check=BUSY, max_examples=5000)
settings.load_profile("soak" if os.environ.get("WAP_SOAK") else "suite")
