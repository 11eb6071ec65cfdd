"""Find the server of this process or of a folder, or fall back to the engine in this process.

Every server leaves `jpserver-<pid>.json` in Jupyter's runtime folder, with its address, its token and its root. The
token goes into the header of requests and into nothing that is printed.

A server that is found and refuses, or does not answer, is an error and never passed over: its policy would be, too.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wap_kernel.client.backend import Backend, Endpoint
from wap_kernel.model.errors import (
    Code,
    InvalidArgument,
    NotFound,
    ProviderUnavailable,
    Unauthenticated,
    WapError,
)
from wap_kernel.model.package import SERVER_PID

_PASSWORD_ONLY = "The server that started this kernel has a password and no token, so that its kernels cannot reach it."
_PASSWORD_HINT = (
    "Start it with a token as well (JUPYTER_TOKEN=... jupyter lab); the password goes on working. "
    "Or set WAP_URL and WAP_TOKEN for the kernel."
)
_TOKEN_HINT = (
    "No token was sent. A server with a password instead of a token announces none: give it a token as well "
    "(c.IdentityProvider.token), or name it with --url URL and a token that it accepts with --token-file FILE."
)
_ANY_ADDRESS = ("0.0.0.0", "::", "")
_HUB_VARIABLES = ("JUPYTERHUB_SERVICE_URL", "JUPYTERHUB_API_TOKEN", "JUPYTERHUB_SERVICE_PREFIX")


# -- the server of this process


@dataclass(frozen=True)
class _Candidate:
    url: str
    token: str = field(repr=False)
    reason: str
    is_named: bool = False
    """A person named the server: then it must have wap, and may be on any machine."""


def find_backend(environ: Mapping[str, str], folder: str, confined_only: bool = False) -> Backend:
    """Return the server of `WAP_URL` (with `WAP_TOKEN`), of this kernel, or of a hub, else the engine on `folder`.

    With `confined_only`, a server without wap is not passed over either: its own policy may just have failed to load.
    """
    tried: list[str] = []
    for find_candidate in (_named_server, _parent_server, _hub_server):
        candidate = find_candidate(environ)
        if isinstance(candidate, str):
            tried.append(candidate)
            continue
        backend = _open_server(candidate, confined_only)
        if backend is not None:
            return backend
        tried.append(f"{candidate.url} answers, but has no wap ({candidate.reason})")
        return _open_embedded(folder, f"the server at {candidate.url} does not have wap", tuple(tried), confined_only)
    return _open_embedded(folder, "no Jupyter server started this process", tuple(tried), confined_only)


def _open_server(candidate: _Candidate, confined_only: bool) -> Backend | None:
    """Return the backend of a server, or None where the server has no wap and may be passed over."""
    from wap_kernel.client.http.http_client import ExtensionMissing
    from wap_kernel.client.server_backend import ServerBackend

    endpoint = Endpoint("server", candidate.url, candidate.reason)
    backend = ServerBackend(candidate.url, candidate.token, endpoint, is_local=None if candidate.is_named else True)
    try:
        backend.require()
    except WapError as error:
        backend.close()
        if isinstance(error, ExtensionMissing) and not candidate.is_named and not confined_only:
            return None
        if error.code is Code.UNAUTHENTICATED and not (candidate.token or candidate.is_named):
            raise Unauthenticated(_PASSWORD_ONLY, hint=_PASSWORD_HINT) from None
        error.hint = f"{error.hint or ''} This server was chosen because {candidate.reason}.".strip()
        raise
    except BaseException:
        backend.close()
        raise
    return backend


def _open_embedded(folder: str, reason: str, tried: tuple[str, ...], confined_only: bool) -> Backend:
    from wap_kernel.client.embedded_backend import EmbeddedBackend

    return EmbeddedBackend(folder, Endpoint("embedded", os.path.abspath(folder), reason, tried), confined_only)


# Each of these returns a server, or in words what is missing for one.


def _named_server(environ: Mapping[str, str]) -> _Candidate | str:
    url = environ.get("WAP_URL")
    if not url:
        return "WAP_URL is not set"
    return _Candidate(url, environ.get("WAP_TOKEN", ""), "WAP_URL names it", is_named=True)


def _parent_server(environ: Mapping[str, str]) -> _Candidate | str:
    """Return the server that started this kernel, by the file that it left under its process id."""
    pid = environ.get("JPY_PARENT_PID", "")
    if not pid:
        return "JPY_PARENT_PID is not set, so no Jupyter server started this process"
    if not (pid.isascii() and pid.isdigit()):
        return "JPY_PARENT_PID is not the number of a process"
    path = os.path.join(_runtime_folder(), f"jpserver-{pid}.json")
    try:
        info = _read_info(path)
        url, token, base = str(info["url"]), str(info.get("token") or ""), str(info.get("base_url", "/"))
    except FileNotFoundError:
        if environ.get(SERVER_PID) != pid:  # the process that started this one was no server, or has no wap
            return f"{path} is not there, so process {pid}, which started this one, is no server of yours"
        raise ProviderUnavailable(
            f"The server that started this kernel has wap, but its file {path} is gone.",
            hint="Restart the server, or name it with WAP_URL and WAP_TOKEN.",
        ) from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ProviderUnavailable(
            f"The server that started this kernel has left a file that cannot be read: {type(error).__name__}.",
            hint=f"Restart it, or name it with WAP_URL and WAP_TOKEN. The file is {path}.",
        ) from None
    if info.get("sock"):
        raise ProviderUnavailable(
            "The server that started this kernel listens on a UNIX socket only.",
            hint="Name another with WAP_URL and WAP_TOKEN.",
        )
    if _hub_prefix(environ) == base:  # started by a hub, which has its own tokens
        token = environ.get("JUPYTERHUB_API_TOKEN", token)
    return _Candidate(url, token, "it started this kernel")


def _hub_server(environ: Mapping[str, str]) -> _Candidate | str:
    """Return the single-user server of JupyterHub, which tells its kernels its address and accepts the hub's token."""
    from urllib.parse import urlsplit

    missing = [name for name in _HUB_VARIABLES if not environ.get(name)]
    if missing:
        return f"{_join_names(missing)} {'is' if len(missing) == 1 else 'are'} not set, so no JupyterHub started it"
    parts = urlsplit(environ["JUPYTERHUB_SERVICE_URL"])
    host = "127.0.0.1" if (parts.hostname or "") in _ANY_ADDRESS else str(parts.hostname)
    netloc = f"[{host}]" if ":" in host else host
    if parts.port:
        netloc = f"{netloc}:{parts.port}"
    url = f"{parts.scheme}://{netloc}{_hub_prefix(environ)}"
    return _Candidate(url, environ["JUPYTERHUB_API_TOKEN"], "JupyterHub started it")


def _join_names(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _hub_prefix(environ: Mapping[str, str]) -> str | None:
    prefix = environ.get("JUPYTERHUB_SERVICE_PREFIX")
    return prefix.rstrip("/") + "/" if prefix else None


# -- the server of a folder


@dataclass(frozen=True)
class RunningServer:
    """A running Jupyter server and its token."""

    url: str
    """The base URL, which ends in a slash."""
    token: str = field(repr=False)
    is_local: bool = True

    def request(self, method: str, path: str, body: object = None) -> Any:
        """Send a request and return the parsed answer; raise a WapError with what the server answered."""
        from wap_kernel.client.http.http_client import HttpClient

        http = HttpClient.open(self.url, self.token, bypasses_proxy=self.is_local or None)
        try:
            return http.request(method, path, body)
        except WapError as error:
            if error.code is Code.UNAUTHENTICATED and not self.token:
                error.hint = _TOKEN_HINT
            raise
        finally:
            http.close()


def name_server(url: str, token_file: Path | None) -> RunningServer:
    """Return the server at `url`, with the token in `token_file`."""
    from wap_kernel.client.http.address import Address

    address = Address.parse(url)
    try:
        token = "" if token_file is None else token_file.read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        raise InvalidArgument(f"The token file {str(token_file)!r} cannot be read: {error}.") from None
    return RunningServer(str(address), token, is_local=False)


def find_server(folder: str | None = None) -> RunningServer:
    """Return the server that started this kernel, else the one whose root is nearest above `folder`.

    `folder` is the current one by default. Raise NotFound, which says what was tried.
    """
    runtime = _runtime_folder()
    here = os.path.realpath(folder or os.getcwd())
    parent = os.environ.get("JPY_PARENT_PID")
    servers = list(_list_running(runtime))
    chosen = [info for info in servers if str(info.get("pid")) == parent]
    if not chosen:
        above = [info for info in servers if _is_above(info["root_dir"], here)]
        chosen = sorted(above, key=lambda info: len(os.path.realpath(info["root_dir"])), reverse=True)
    if not chosen:
        roots = ", ".join(sorted(str(info["root_dir"]) for info in servers)) or "none"
        raise NotFound(
            f"No running Jupyter server serves {here} (looked in {runtime}; running servers serve: {roots}).",
            hint="Start one there, go to its folder, or name it with --url URL --token-file FILE.",
        )
    info = chosen[0]
    if info.get("sock"):
        raise ProviderUnavailable("The server listens on a UNIX socket only.", hint="Name another with --url.")
    return RunningServer(info["url"].rstrip("/") + "/", info.get("token") or "")


def _list_running(runtime: str) -> Iterator[dict[str, Any]]:
    try:
        names = sorted(os.listdir(runtime))
    except OSError:
        return
    for name in names:
        if re.fullmatch(r"jpserver-.+\.json", name):
            try:
                info = _read_info(os.path.join(runtime, name))
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
    except PermissionError:  # a process of another user, but alive
        pass
    return True


def _is_above(root: str, folder: str) -> bool:
    real = os.path.realpath(root)
    return os.path.commonpath([real, folder]) == real


# -- the files that servers leave


def _runtime_folder() -> str:
    from jupyter_core.paths import jupyter_runtime_dir  # the only package that the client needs

    return jupyter_runtime_dir()


def _read_info(path: str) -> Any:
    with open(path, encoding="utf-8") as file:
        return json.load(file)
