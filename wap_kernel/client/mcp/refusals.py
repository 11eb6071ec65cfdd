"""Word the errors of a connection for the person who started `wap mcp --url`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wap_kernel.client.http.http_client import GATEWAY_STATUSES, HttpClient
from wap_kernel.dialects.mcp.protocol import INTERNAL_ERROR, INVALID_REQUEST
from wap_kernel.model.errors import Code, WapError


def explain_refusal(http: HttpClient, status: int, error: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON-RPC error for a refusal; `error` is the server's own, empty where wap did not answer."""
    data = error.get("data")
    code = data.get("code") if isinstance(data, Mapping) else None
    if code == Code.UNAUTHENTICATED.value or (not error and status in (401, 403)):
        why = "The server does not accept this token." if http.token else "The server wants a token."
        text = f"{why} Name a file that holds one with --token-file, or set WAP_TOKEN; `wap token create` makes one."
        return _build_error(INVALID_REQUEST, text, Code.UNAUTHENTICATED)
    if error:
        return dict(error)
    if status in GATEWAY_STATUSES:
        text = f"The proxy of the server at {http.address} answered {status}. Is the server running? Try again."
        return _build_error(INTERNAL_ERROR, text, Code.PROVIDER_UNAVAILABLE, status=status)
    if 300 <= status < 400:
        text = (
            f"The server at {http.address} answered {status}, a redirect, which is not followed because the token "
            "belongs to this server alone. Is the token right, and does the address have the server's base URL?"
        )
        return _build_error(INVALID_REQUEST, text, Code.PROVIDER_UNAVAILABLE, status=status)
    text = (
        f"There is no wap at {http.address}. The address has the server's base URL in it: `jupyter server "
        "list` shows it. Is the extension enabled there (`jupyter server extension list`)?"
    )
    return _build_error(INVALID_REQUEST, text, Code.NOT_FOUND, status=status)


def explain_failure(error: WapError) -> dict[str, Any]:
    """Return the JSON-RPC error for a connection that failed."""
    return _build_error(INTERNAL_ERROR, error.text, error.code, hint=error.hint)


def _build_error(number: int, text: str, code: Code, **data: Any) -> dict[str, Any]:
    return {"code": number, "message": text, "data": {"code": code.value, **data}}
