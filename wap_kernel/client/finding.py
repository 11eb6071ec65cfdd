"""Where the hands of this process work: on a server that the environment names, on the one that started this kernel, or
with the engine in this process.

A server that is found and refuses, or does not answer, is an error and never passed over: its policy would be, too.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from wap_kernel.client.backend import Backend, Place
from wap_kernel.errors import ProviderUnavailable, WapError

SERVER_PID = "WAP_SERVER_PID"
"""The variable by which a server that has wap tells those whom it starts: then none of them works without it."""
_ANYWHERE = ("0.0.0.0", "::", "")


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
    found = _named(environ) or _own(environ) or _hub(environ)
    if found is None:
        return _embedded(folder, "no Jupyter server started this process", confined_only)
    from wap_kernel.client.http import Absent
    from wap_kernel.client.server import ServerBackend

    place = Place("server", found.url, found.reason)
    backend = ServerBackend(found.url, found.token, place, is_local=None if found.is_named else True)
    try:
        backend.require()
    except WapError as error:
        backend.close()
        if isinstance(error, Absent) and not found.is_named and not confined_only:
            return _embedded(folder, f"the server at {found.url} does not have wap", confined_only)
        error.hint = f"{error.hint or ''} It was asked because {found.reason}.".strip()
        raise
    except BaseException:
        backend.close()
        raise
    return backend


def _embedded(folder: str, reason: str, confined_only: bool) -> Backend:
    from wap_kernel.client.embedded import EmbeddedBackend

    return EmbeddedBackend(folder, Place("embedded", os.path.abspath(folder), reason), confined_only)


def _named(environ: Mapping[str, str]) -> _Found | None:
    url = environ.get("WAP_URL")
    return _Found(url, environ.get("WAP_TOKEN", ""), "WAP_URL names it", is_named=True) if url else None


def _own(environ: Mapping[str, str]) -> _Found | None:
    """A server leaves a file with its address and token for whom it starts, under its own process id."""
    pid = environ.get("JPY_PARENT_PID", "")
    if not (pid.isascii() and pid.isdigit()):
        return None
    from jupyter_core.paths import jupyter_runtime_dir

    path = os.path.join(jupyter_runtime_dir(), f"jpserver-{pid}.json")
    try:
        with open(path, encoding="utf-8") as file:
            info = json.load(file)
        url, token, base = str(info["url"]), str(info.get("token") or ""), str(info.get("base_url", "/"))
    except FileNotFoundError:
        if environ.get(SERVER_PID) != pid:  # whatever started this process was no server, or has no wap
            return None
        raise ProviderUnavailable(
            "The server that started this kernel has wap, but its file in Jupyter's runtime folder is gone.",
            hint="Restart the server, or name it with WAP_URL and WAP_TOKEN.",
        ) from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ProviderUnavailable(
            f"The server that started this kernel has left a file that cannot be read: {type(error).__name__}.",
            hint="Restart it, or name it with WAP_URL and WAP_TOKEN.",
        ) from None
    if info.get("sock"):
        raise ProviderUnavailable(
            "The server that started this kernel listens on a UNIX socket only.",
            hint="Name another with WAP_URL and WAP_TOKEN.",
        )
    if _prefix(environ) == base:  # started by a hub, which has its own tokens
        token = environ.get("JUPYTERHUB_API_TOKEN", token)
    return _Found(url, token, "it started this kernel")


def _hub(environ: Mapping[str, str]) -> _Found | None:
    """The single-user server of JupyterHub tells its kernels where it listens; the hub's token for it opens it."""
    from urllib.parse import urlsplit

    listens, token = environ.get("JUPYTERHUB_SERVICE_URL"), environ.get("JUPYTERHUB_API_TOKEN")
    prefix = _prefix(environ)
    if not (listens and token and prefix):
        return None
    parts = urlsplit(listens)
    host = "127.0.0.1" if (parts.hostname or "") in _ANYWHERE else str(parts.hostname)
    netloc = f"[{host}]" if ":" in host else host
    if parts.port:
        netloc = f"{netloc}:{parts.port}"
    return _Found(f"{parts.scheme}://{netloc}{prefix}", token, "JupyterHub started it")


def _prefix(environ: Mapping[str, str]) -> str | None:
    prefix = environ.get("JUPYTERHUB_SERVICE_PREFIX")
    return prefix.rstrip("/") + "/" if prefix else None
