"""Finding a running Jupyter server and asking it something, with the standard library.

As `jupyter server list` does: every server leaves `jpserver-<pid>.json` in Jupyter's runtime folder, with its address,
its token and its root. The token goes into the request's header and into nothing that is printed.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wap_kernel.client.address import Address
from wap_kernel.client.http import Http
from wap_kernel.model.errors import Code, InvalidArgument, NotFound, ProviderUnavailable, WapError

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
        http = Http.at(self.url, self.token, is_direct=self.local or None)
        try:
            return http.ask(method, path, body)
        except WapError as error:
            if error.code is Code.UNAUTHENTICATED and not self.token:
                error.hint = _NO_TOKEN
            raise
        finally:
            http.close()


def named(url: str, token_file: Path | None) -> Server:
    """The server that somebody names."""
    address = Address.parse(url)
    try:
        token = "" if token_file is None else token_file.read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        raise InvalidArgument(f"The token file {str(token_file)!r} cannot be read: {error}.") from None
    return Server(str(address), token, local=False)


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
