"""How often a test tries: enough in `make test` to find the bugs it was written for, and much more in `make soak`."""

from __future__ import annotations

import os

from hypothesis import settings

SOAK = bool(os.environ.get("WAP_SOAK"))


def choose_budget(*, suite: int, soak: int) -> int:
    return soak if SOAK else suite


def limit_examples(suite: int) -> settings:
    """Return settings with at most `suite` examples in `make test`, for what takes seconds with as many as usual."""
    usual = settings().max_examples
    return settings(max_examples=usual if SOAK else min(suite, usual))
