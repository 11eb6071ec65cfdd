"""What is sent and what comes back, as JSON: the same bounds for a server and for the engine in this process."""

from __future__ import annotations

import json
from typing import Any

from wap_kernel.model.errors import InvalidArgument, TooLarge
from wap_kernel.model.limits import MAX_BODY_BYTES


def encoded(body: object) -> bytes:
    try:
        data = json.dumps(body, allow_nan=False).encode("ascii")
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArgument(f"It holds what JSON cannot: {error}.") from None
    if len(data) > MAX_BODY_BYTES:
        raise TooLarge(
            f"The request is over {MAX_BODY_BYTES} bytes.",
            hint="Send it in parts: fewer operations at a time, or a smaller content.",
            limit=MAX_BODY_BYTES,
        )
    return data


def decoded(data: bytes | str) -> Any:
    """Raises ValueError for what is no JSON, also for what is nested deeper than anything of ours."""
    try:
        return json.loads(data)
    except RecursionError:
        raise ValueError("nested too deeply") from None
