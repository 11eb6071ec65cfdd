"""Times as every answer has them: UTC, to the millisecond, ending in Z."""

from __future__ import annotations

from datetime import datetime, timezone


def text_of(moment: datetime) -> str:
    return moment.astimezone(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def text_of_seconds(seconds: float) -> str:
    return text_of(datetime.fromtimestamp(seconds, timezone.utc))


def utc_now() -> str:
    return text_of(datetime.now(timezone.utc))
