"""Times as every answer has them: UTC, to the millisecond, ending in Z."""

from __future__ import annotations

import math
from datetime import datetime, timezone
from functools import lru_cache


def text_of(moment: datetime) -> str:
    if moment.tzinfo is not timezone.utc:
        moment = moment.astimezone(timezone.utc)
    return f"{moment.isoformat(timespec='milliseconds')[: -len('+00:00')]}Z"


def text_of_seconds(seconds: float) -> str:
    whole = math.floor(seconds)
    return f"{_to_the_second(whole)}.{int((seconds - whole) * 1000):03}Z"


@lru_cache(maxsize=4)
def _to_the_second(seconds: int) -> str:
    """Thousands of records share one."""
    return datetime.fromtimestamp(seconds, timezone.utc).isoformat()[: -len("+00:00")]


def utc_now() -> str:
    return text_of(datetime.now(timezone.utc))
