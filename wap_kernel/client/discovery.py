"""Where the hands of this process work: on a server that the environment names, on the one that started this kernel, or
with the engine in this process.

A server that is found and refuses, or does not answer, is an error and never passed over: its policy would be, too.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from wap_kernel.client.backend import Backend, Place
from wap_kernel.client.folders import runtime_folder
from wap_kernel.model.environment import SERVER_PID
from wap_kernel.model.errors import Code, ProviderUnavailable, Unauthenticated, WapError

_NO_TOKEN = "The server that started this kernel has a password and no token, so that its kernels cannot reach it."
_WITH_TOKEN = (
    "Start it with a token as well (JUPYTER_TOKEN=... jupyter lab); the password goes on working. "
    "Or set WAP_URL and WAP_TOKEN for the kernel."
)
_ANYWHERE = ("0.0.0.0", "::", "")
_OF_A_HUB = ("JUPYTERHUB_SERVICE_URL", "JUPYTERHUB_API_TOKEN", "JUPYTERHUB_SERVICE_PREFIX")


@dataclass(frozen=True)
class _Found:
    url: str
    token: str = field(repr=False)
    reason: str
    is_named: bool = False
    """By a person: then it is to have wap, and may be anywhere."""


def find(environ: Mapping[str, str], folder: str, confined_only: bool = False) -> Backend:
    """The server of `WAP_URL` (with `WAP_TOKEN`), else the one that started this kernel, else one that a hub started,
    else the engine on `folder`. With `confined_only` a server that has no wap is not passed over either: its own
    policy may just have failed to load."""
    tried: list[str] = []
    for look in (_named, _own, _hub):
        found = look(environ)
        if isinstance(found, str):
            tried.append(found)
            continue
        backend = _asked(found, confined_only)
        if backend is not None:
            return backend
        tried.append(f"{found.url} answers, but has no wap ({found.reason})")
        return _embedded(folder, f"the server at {found.url} does not have wap", tuple(tried), confined_only)
    return _embedded(folder, "no Jupyter server started this process", tuple(tried), confined_only)


def _asked(found: _Found, confined_only: bool) -> Backend | None:
    """None: it is there and has no wap, and may be passed over."""
    from wap_kernel.client.http import Absent
    from wap_kernel.client.server_backend import ServerBackend

    place = Place("server", found.url, found.reason)
    backend = ServerBackend(found.url, found.token, place, is_local=None if found.is_named else True)
    try:
        backend.require()
    except WapError as error:
        backend.close()
        if isinstance(error, Absent) and not found.is_named and not confined_only:
            return None
        if error.code is Code.UNAUTHENTICATED and not (found.token or found.is_named):
            raise Unauthenticated(_NO_TOKEN, hint=_WITH_TOKEN) from None
        error.hint = f"{error.hint or ''} It was asked because {found.reason}.".strip()
        raise
    except BaseException:
        backend.close()
        raise
    return backend


def _embedded(folder: str, reason: str, tried: tuple[str, ...], confined_only: bool) -> Backend:
    from wap_kernel.client.embedded_backend import EmbeddedBackend

    return EmbeddedBackend(folder, Place("embedded", os.path.abspath(folder), reason, tried), confined_only)


# -- where to look; each answers a server, or in words what is missing for one


def _named(environ: Mapping[str, str]) -> _Found | str:
    url = environ.get("WAP_URL")
    if not url:
        return "WAP_URL is not set"
    return _Found(url, environ.get("WAP_TOKEN", ""), "WAP_URL names it", is_named=True)


def _own(environ: Mapping[str, str]) -> _Found | str:
    """A server leaves a file with its address and token for whom it starts, under its own process id."""
    pid = environ.get("JPY_PARENT_PID", "")
    if not pid:
        return "JPY_PARENT_PID is not set, so no Jupyter server started this process"
    if not (pid.isascii() and pid.isdigit()):
        return "JPY_PARENT_PID is not the number of a process"
    path = os.path.join(runtime_folder(environ), f"jpserver-{pid}.json")
    try:
        with open(path, encoding="utf-8") as file:
            info = json.load(file)
        url, token, base = str(info["url"]), str(info.get("token") or ""), str(info.get("base_url", "/"))
    except FileNotFoundError:
        if environ.get(SERVER_PID) != pid:  # whatever started this process was no server, or has no wap
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
    if _prefix(environ) == base:  # started by a hub, which has its own tokens
        token = environ.get("JUPYTERHUB_API_TOKEN", token)
    return _Found(url, token, "it started this kernel")


def _hub(environ: Mapping[str, str]) -> _Found | str:
    """The single-user server of JupyterHub tells its kernels where it listens; the hub's token for it opens it."""
    from urllib.parse import urlsplit

    missing = [name for name in _OF_A_HUB if not environ.get(name)]
    if missing:
        return f"{_listed(missing)} {'is' if len(missing) == 1 else 'are'} not set, so no JupyterHub started it"
    parts = urlsplit(environ["JUPYTERHUB_SERVICE_URL"])
    host = "127.0.0.1" if (parts.hostname or "") in _ANYWHERE else str(parts.hostname)
    netloc = f"[{host}]" if ":" in host else host
    if parts.port:
        netloc = f"{netloc}:{parts.port}"
    url = f"{parts.scheme}://{netloc}{_prefix(environ)}"
    return _Found(url, environ["JUPYTERHUB_API_TOKEN"], "JupyterHub started it")


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _prefix(environ: Mapping[str, str]) -> str | None:
    prefix = environ.get("JUPYTERHUB_SERVICE_PREFIX")
    return prefix.rstrip("/") + "/" if prefix else None
