"""For every test: Jupyter's fixtures, and property tests that try the same examples in every run."""

from __future__ import annotations

import os

from hypothesis import settings

pytest_plugins = ["pytest_jupyter.jupyter_server"]

settings.register_profile("suite", deadline=None, derandomize=True)
settings.register_profile("soak", deadline=None, max_examples=5000)
settings.load_profile("soak" if os.environ.get("WAP_SOAK") else "suite")
