"""Find the agent token of a request: in `Authorization: Bearer wap_...` and nowhere else.

Jupyter accepts its own token in the query and as `Authorization: token` too. An agent token there would end in logs and
histories, or be tried as a Jupyter token, so the request is refused with a hint how to send it.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from tornado.httputil import HTTPServerRequest

from wap_kernel.model.errors import Unauthenticated

_AUTHORIZATION = re.compile(r"\s*(?i:(token|bearer))\s+(wap_.*)", re.DOTALL)


class PresentedToken(NamedTuple):
    """The text in a request that looks like an agent token."""

    value: str
    misplaced: str | None = None
    """The part of the request that holds the token, if not the Bearer header; for the error text."""

    def token(self) -> str:
        """Return the token's text; raise Unauthenticated when it stands in the wrong part of the request."""
        if self.misplaced is not None:
            raise Unauthenticated(
                f"An agent token is not accepted {self.misplaced}.",
                hint="Send it in a header, 'Authorization: Bearer <token>', on wap/ routes.",
            )
        return self.value


def find_token(request: HTTPServerRequest) -> PresentedToken | None:
    """Return what may be an agent token, wherever it stands; None for a request without one."""
    # Jupyter reads the query first, so a header does not make up for an agent token in the address.
    for value in request.query_arguments.get("token", ()):
        if value.strip().startswith(b"wap_"):
            return PresentedToken("", "in the address")
    match = _AUTHORIZATION.match(request.headers.get("Authorization", ""))
    if match is None:
        return None
    return PresentedToken(match[2].rstrip(), None if match[1].lower() == "bearer" else "as 'Authorization: token'")
