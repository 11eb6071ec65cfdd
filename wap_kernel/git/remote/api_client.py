"""Send requests with a secret to a JSON API: over TLS, to one address, never redirected, never quoted in an error."""

from __future__ import annotations

import json
from http.client import HTTPException, HTTPMessage
from typing import IO, Any
from urllib.parse import urlsplit

from wap_kernel.git.remote.credentials import Secret
from wap_kernel.model.errors import ProviderUnavailable
from wap_kernel.policy.git_remotes import parse_remote
from wap_kernel.redaction.redactor import Redactor

TIMEOUT_SECONDS = 20.0
MAX_RESPONSE_BYTES = 1024 * 1024
_HINTS = {
    401: "Check the App's id and private key, and the server's clock.",
    403: "The App lacks a permission: give it read and write access to contents.",
    404: "The App is not installed for this repository, or the installation's id is wrong.",
    422: "The App is not installed for this repository, or lacks write access to its contents.",
}


class ApiClient:
    """A client of GitHub's API at one address."""

    def __init__(self, api_url: str, *, ca_file: str | None = None, allow_http: bool = False) -> None:
        self._api = api_url.rstrip("/")
        # The same rules as for a remote; an API's address may have no path of its own.
        parse_remote(f"{self._api}/x", allow_http=allow_http)
        self._ca_file = ca_file

    def send(self, method: str, path: str, bearer: Secret, body: dict[str, Any] | None = None) -> dict[str, Any]:
        import urllib.error
        import urllib.request

        class NoRedirect(urllib.request.HTTPRedirectHandler):
            def redirect_request(
                self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
            ) -> None:
                """Follow no redirect: the secret is for this host only."""

        request = urllib.request.Request(
            f"{self._api}{path}",
            data=None if body is None else json.dumps(body).encode(),
            method=method,
            headers={
                "Accept": "application/vnd.github+json",
                "Authorization": f"Bearer {bearer.reveal()}",
                "Content-Type": "application/json",
                "User-Agent": "wap",
                "X-GitHub-Api-Version": "2022-11-28",
            },
        )
        opener = urllib.request.build_opener(NoRedirect, urllib.request.HTTPSHandler(context=self._context()))
        try:
            with opener.open(request, timeout=TIMEOUT_SECONDS) as response:
                content = json.loads(response.read(MAX_RESPONSE_BYTES))
        except urllib.error.HTTPError as error:
            with error:
                raise self._refused_error(error.code, error.read(MAX_RESPONSE_BYTES), bearer) from None
        except (OSError, HTTPException) as error:
            reason = getattr(error, "reason", None) or type(error).__name__
            raise ProviderUnavailable(
                f"GitHub's API cannot be reached at {urlsplit(self._api).netloc}: {reason}",
                hint="Check the network and the API's address.",
            ) from None
        except ValueError:
            content = None
        if not isinstance(content, dict):
            raise ProviderUnavailable("GitHub's API did not answer with JSON.", hint="Check the API's address.")
        return content

    def _context(self) -> Any:
        import ssl

        return ssl.create_default_context(cafile=self._ca_file)

    def _refused_error(self, status: int, data: bytes, bearer: Secret) -> ProviderUnavailable:
        try:
            message = str(json.loads(data).get("message", ""))[:200]
        except (ValueError, AttributeError):
            message = ""
        text = Redactor([bearer.reveal()])(message)
        return ProviderUnavailable(
            f"GitHub gives no token (HTTP {status}){': ' + text if text else '.'}",
            hint=_HINTS.get(status, "Try again later."),
            status=status,
        )
