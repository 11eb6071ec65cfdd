"""For every test: Jupyter's fixtures, and property tests that try the same examples in every run."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

pytest_plugins = ["pytest_jupyter.jupyter_server"]

BUSY = [HealthCheck.too_slow]
"""That examples take long to make says only that."""
settings.register_profile("suite", deadline=None, suppress_health_check=BUSY, derandomize=True)
settings.register_profile("soak", deadline=None, suppress_health_check=BUSY, max_examples=5000)
settings.load_profile("soak" if os.environ.get("WAP_SOAK") else "suite")
