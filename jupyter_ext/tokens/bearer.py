"""Where a request carries an agent token: in `Authorization: Bearer wap_...` and nowhere else.

Jupyter takes its own token from the query and as `Authorization: token` too. An agent token there would end in logs and
histories, or be tried as a Jupyter token, so it is refused with the way to send it.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from tornado.httputil import HTTPServerRequest

from wap_kernel.model.errors import Unauthenticated

_AUTHORIZATION = re.compile(r"\s*(?i:(token|bearer))\s+(wap_.*)", re.DOTALL)


class Presented(NamedTuple):
    value: str
    misplaced: str | None = None
    """Where it stands instead of where it belongs."""

    def token(self) -> str:
        if self.misplaced is not None:
            raise Unauthenticated(
                f"An agent token is not accepted {self.misplaced}.",
                hint="Send it in a header, 'Authorization: Bearer <token>', on wap/ routes.",
            )
        return self.value


def presented(request: HTTPServerRequest) -> Presented | None:
    """What may be an agent token, wherever it stands; None for a request without one."""
    # Jupyter looks at the query first, and so an agent token there is not made good by a header.
    for value in request.query_arguments.get("token", ()):
        if value.strip().startswith(b"wap_"):
            return Presented("", "in the address")
    found = _AUTHORIZATION.match(request.headers.get("Authorization", ""))
    if found is None:
        return None
    return Presented(found[2].rstrip(), None if found[1].lower() == "bearer" else "as 'Authorization: token'")
