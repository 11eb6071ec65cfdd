"""Parse the address of a server, and find the proxy that the environment names for it."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote, unquote, urlsplit

from wap_kernel.model.errors import InvalidArgument

_LOCAL = ("localhost", "::1")
_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True)
class Address:
    """The base URL of a server, in its parts."""

    scheme: str
    host: str
    port: int
    path: str
    """The path of the base URL, which begins and ends with a slash."""

    @classmethod
    def parse(cls, url: str) -> Address:
        """Parse `url`; the InvalidArgument that this raises does not repeat what may hold a secret."""
        try:
            parts = urlsplit(url.strip())
            host, port = parts.hostname, parts.port
        except ValueError:
            host, port, parts = None, None, urlsplit("")
        if parts.scheme not in _PORTS or not host or not host.isprintable() or " " in host:
            redacted = url.partition("?")[0].rpartition("@")[2]
            raise InvalidArgument(
                f"{redacted!r} is not the address of a server.", hint="Write it as http://localhost:8888/"
            )
        if parts.query or parts.fragment or parts.username is not None:
            raise InvalidArgument(
                "The address of a server must not hold a query, a user name or a token.",
                hint="Write it as http://localhost:8888/ and pass the token on its own, for example in WAP_TOKEN.",
            )
        path = quote(parts.path.strip("/"), safe="/%~@:!$&'()*+,;=")  # characters that are quoted stay quoted
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
    """An HTTP proxy."""

    host: str
    port: int
    headers: dict[str, str]
    """Headers that authenticate the client to the proxy."""


def proxy_for(address: Address) -> Proxy | None:
    """Return the proxy that the environment names for `address`, or None."""
    import base64
    from urllib.request import getproxies, proxy_bypass

    url = getproxies().get(address.scheme)
    if not url or proxy_bypass(address.host):
        return None
    parts = urlsplit(url if "://" in url else f"http://{url}")
    if parts.scheme != "http" or not parts.hostname:
        raise InvalidArgument(
            f"The proxy for {address.scheme} is not an http:// address.",
            hint=f"Correct {address.scheme}_proxy in the environment.",
        )
    secret = f"{unquote(parts.username)}:{unquote(parts.password or '')}" if parts.username is not None else None
    headers = {} if secret is None else {"Proxy-Authorization": f"Basic {base64.b64encode(secret.encode()).decode()}"}
    return Proxy(parts.hostname, parts.port or 80, headers)
