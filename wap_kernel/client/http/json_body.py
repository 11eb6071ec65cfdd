"""Encode requests and decode answers as JSON, with the same limits for a server and for the engine in this process."""

from __future__ import annotations

import json
from typing import Any

from wap_kernel.model.errors import InvalidArgument, TooLarge
from wap_kernel.model.limits import MAX_BODY_BYTES


def encode_body(body: object) -> bytes:
    """Return `body` as JSON; raise for values that JSON cannot hold and for bodies over the limit."""
    try:
        data = json.dumps(body, allow_nan=False).encode("ascii")
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArgument(f"The request holds a value that JSON cannot: {error}.") from None
    if len(data) > MAX_BODY_BYTES:
        raise TooLarge(
            f"The request is over {MAX_BODY_BYTES} bytes.",
            hint="Send it in parts: fewer operations at a time, or a smaller content.",
            limit=MAX_BODY_BYTES,
        )
    return data


def decode_body(data: bytes | str) -> Any:
    """Return the value in `data`; raise ValueError if it is not JSON or is nested too deeply."""
    try:
        return json.loads(data)
    except RecursionError:
        raise ValueError("nested too deeply") from None
