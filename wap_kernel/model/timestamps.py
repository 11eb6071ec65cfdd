"""Format timestamps for results, events and the audit: UTC, to the millisecond, ending in Z."""

from __future__ import annotations

import math
from datetime import datetime, timezone
from functools import lru_cache


def format_timestamp(moment: datetime) -> str:
    if moment.tzinfo is not timezone.utc:
        moment = moment.astimezone(timezone.utc)
    return f"{moment.isoformat(timespec='milliseconds')[: -len('+00:00')]}Z"


def format_epoch(seconds: float) -> str:
    whole = math.floor(seconds)
    return f"{_format_second(whole)}.{int((seconds - whole) * 1000):03}Z"


@lru_cache(maxsize=4)
def _format_second(seconds: int) -> str:
    # Cached: thousands of records fall into the same second.
    return datetime.fromtimestamp(seconds, timezone.utc).isoformat()[: -len("+00:00")]


def utc_now() -> str:
    return format_timestamp(datetime.now(timezone.utc))
