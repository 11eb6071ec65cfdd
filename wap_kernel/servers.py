"""Finding a running Jupyter server and asking it something, with the standard library.

As `jupyter server list` does: every server leaves `jpserver-<pid>.json` in Jupyter's runtime folder, with its address,
its token and its root. The token goes into the request's header and into nothing that is printed.
"""

from __future__ import annotations

import json
import os
import re
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wap_kernel.errors import InvalidArgument, NotFound, ProviderUnavailable, WapError

TIMEOUT = 30.0
_NO_TOKEN = (
    "No token was sent. A server with a password instead of a token announces none: give it a token as well "
    "(c.IdentityProvider.token), or name it with --url URL and a token that it accepts with --token-file FILE."
)


@dataclass(frozen=True)
class Server:
    url: str
    """With the base URL; ends in a slash."""
    token: str = field(repr=False)
    local: bool = True

    def request(self, method: str, path: str, body: object = None) -> Any:
        """The parsed answer, or a WapError with what the server said."""
        headers = {"Content-Type": "application/json"}
        if self.token:
            headers["Authorization"] = f"token {self.token}"
        data = None if body is None else json.dumps(body).encode("ascii")
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        try:
            with self._opener().open(request, timeout=TIMEOUT) as response:
                return json.loads(response.read() or b"null")
        except urllib.error.HTTPError as error:
            with error:
                raise _refusal(error, _NO_TOKEN if not self.token and error.code in (401, 403) else None) from None
        except (OSError, ValueError) as error:
            reason = getattr(error, "reason", error)
            if isinstance(reason, ssl.SSLCertVerificationError):
                raise ProviderUnavailable(
                    f"The certificate of the server at {self.url} is not trusted: {reason.verify_message}.",
                    hint="Name the server as its certificate does, with --url URL --token-file FILE; for a self-signed "
                    "certificate, set SSL_CERT_FILE to the certificate's file as well.",
                ) from None
            raise ProviderUnavailable(
                f"The server at {self.url} does not answer: {reason}.", hint="Is it still running?"
            ) from None

    def _opener(self) -> urllib.request.OpenerDirector:
        # This machine's own server is never behind a proxy, whatever the environment says.
        proxies = [urllib.request.ProxyHandler({})] if self.local else []
        return urllib.request.build_opener(_NoRedirect, *proxies)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Elsewhere is not where the token belongs."""

    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        return None


def named(url: str, token_file: Path | None) -> Server:
    """The server that somebody names."""
    if not url.startswith(("http://", "https://")):
        raise InvalidArgument(f"{url!r} is not the address of a server.", hint="Such as http://localhost:8888/")
    try:
        token = "" if token_file is None else token_file.read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        raise InvalidArgument(f"The token file {str(token_file)!r} cannot be read: {error}.") from None
    return Server(url.rstrip("/") + "/", token, local=False)


def find(folder: str | None = None) -> Server:
    """The server whose kernel this is, else the one whose root holds `folder` (default: the current one) most closely.

    Raises NotFound, which says what was tried.
    """
    from jupyter_core.paths import jupyter_runtime_dir

    runtime = jupyter_runtime_dir()
    here = os.path.realpath(folder or os.getcwd())
    parent = os.environ.get("JPY_PARENT_PID")
    servers = list(_running(runtime))
    chosen = [info for info in servers if str(info.get("pid")) == parent]
    if not chosen:
        holding = [info for info in servers if _holds(info["root_dir"], here)]
        chosen = sorted(holding, key=lambda info: len(os.path.realpath(info["root_dir"])), reverse=True)
    if not chosen:
        roots = ", ".join(sorted(str(info["root_dir"]) for info in servers)) or "none"
        raise NotFound(
            f"No running Jupyter server serves {here} (looked in {runtime}; running servers serve: {roots}).",
            hint="Start one there, go to its folder, or name it with --url URL --token-file FILE.",
        )
    found = chosen[0]
    if found.get("sock"):
        raise ProviderUnavailable("The server listens on a UNIX socket only.", hint="Name another with --url.")
    return Server(found["url"].rstrip("/") + "/", found.get("token") or "")


def _running(runtime: str) -> Iterator[dict[str, Any]]:
    try:
        names = sorted(os.listdir(runtime))
    except OSError:
        return
    for name in names:
        if re.fullmatch(r"jpserver-.+\.json", name):
            try:
                with open(os.path.join(runtime, name), encoding="utf-8") as file:
                    info = json.load(file)
            except (OSError, ValueError):  # just being written, or just removed
                continue
            if isinstance(info, dict) and _is_complete(info) and _is_alive(info["pid"]):
                yield info


def _is_complete(info: dict[str, Any]) -> bool:
    return isinstance(info.get("pid"), int) and all(isinstance(info.get(name), str) for name in ("url", "root_dir"))


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # somebody else's, but alive
        pass
    return True


def _holds(root: str, folder: str) -> bool:
    real = os.path.realpath(root)
    return os.path.commonpath([real, folder]) == real


def _refusal(error: urllib.error.HTTPError, hint: str | None) -> WapError:
    try:
        return _Refusal(str(json.loads(error.read())["error"]), hint=hint)
    except (OSError, ValueError, KeyError, TypeError):
        return _Refusal(
            f"The server answered {error.code} {error.reason}.", hint=hint or "Is it a Jupyter server with wap enabled?"
        )


class _Refusal(WapError):
    """What a server answered; its text is the server's."""
