"""Where a server is: its address taken apart, and whether a proxy stands before it."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote, unquote, urlsplit

from wap_kernel.model.errors import InvalidArgument

_LOCAL = ("localhost", "::1")
_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True)
class Address:
    scheme: str
    host: str
    port: int
    path: str
    """The base URL; begins and ends with a slash."""

    @classmethod
    def parse(cls, url: str) -> Address:
        """Raises InvalidArgument, which does not repeat what may hold a secret."""
        try:
            parts = urlsplit(url.strip())
            host, port = parts.hostname, parts.port
        except ValueError:
            host, port, parts = None, None, urlsplit("")
        if parts.scheme not in _PORTS or not host or not host.isprintable() or " " in host:
            shown = url.partition("?")[0].rpartition("@")[2]
            raise InvalidArgument(f"{shown!r} is not the address of a server.", hint="Such as http://localhost:8888/")
        if parts.query or parts.fragment or parts.username is not None:
            raise InvalidArgument(
                "The address of a server ends with its path, and has no name or token in it.",
                hint="Such as http://localhost:8888/ with the token beside it, as in WAP_TOKEN.",
            )
        path = quote(parts.path.strip("/"), safe="/%~@:!$&'()*+,;=")  # what is quoted stays as the server has it
        return cls(parts.scheme, host, port or _PORTS[parts.scheme], f"/{path}/" if path else "/")

    @property
    def is_local(self) -> bool:
        return self.host in _LOCAL or self.host.startswith("127.") or self.host.endswith(".localhost")

    @property
    def netloc(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.netloc}{self.path}"


@dataclass(frozen=True)
class Proxy:
    host: str
    port: int
    headers: dict[str, str]
    """What it wants to know of whoever asks."""


def proxy_for(address: Address) -> Proxy | None:
    """The one that the environment names for it."""
    import base64
    from urllib.request import getproxies, proxy_bypass

    named = getproxies().get(address.scheme)
    if not named or proxy_bypass(address.host):
        return None
    parts = urlsplit(named if "://" in named else f"http://{named}")
    if parts.scheme != "http" or not parts.hostname:
        raise InvalidArgument(
            f"The proxy for {address.scheme} is not one that is reached over http.", hint=f"See {address.scheme}_proxy."
        )
    secret = f"{unquote(parts.username)}:{unquote(parts.password or '')}" if parts.username is not None else None
    known = {} if secret is None else {"Proxy-Authorization": f"Basic {base64.b64encode(secret.encode()).decode()}"}
    return Proxy(parts.hostname, parts.port or 80, known)
