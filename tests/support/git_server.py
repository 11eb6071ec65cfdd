"""A git server on loopback: `git http-backend` behind TLS and Basic authentication, and GitHub's token endpoint."""

from __future__ import annotations

import base64
import datetime
import ipaddress
import json
import re
import socketserver
import ssl
import subprocess
import threading
import time
from collections.abc import Callable
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import jwt
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.support.git_repository import PLAIN, plain
from tests.support.provider_workspace import LONG

APP_ID = "4711"
INSTALLATION = 12
SLUG = "emergent-app"


@cache
def _key(name: str) -> rsa.RSAPrivateKey:
    """One for each use: to make them takes longer than most tests."""
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def make_key(path: Path) -> rsa.RSAPrivateKey:
    key = _key(path.name)
    form = serialization.PrivateFormat.TraditionalOpenSSL
    path.touch(mode=0o600)
    path.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()))
    return key


def make_certificate(folder: Path) -> tuple[Path, Path]:
    key = make_key(folder / "tls.key")
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "loopback")])
    now = datetime.datetime.now(datetime.timezone.utc)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1")), x509.DNSName("localhost")]),
            critical=False,
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    (folder / "tls.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    return folder / "tls.pem", folder / "tls.key"


class Listener:
    """A host that hears whatever is said to it, and says nothing."""

    def __init__(self) -> None:
        self.heard: list[bytes] = []
        heard = self.heard

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                self.request.settimeout(LONG)
                heard.append(self.request.recv(65536))

        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        self.origin = f"https://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class GitServer:
    """`repositories` are bare ones, `owner/name.git`, in its folder."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        self.repositories = folder / "repositories"
        self.tokens: set[str] = set()
        """The passwords that the server accepts."""
        self.given = 0
        self.lifetime = 3600.0
        self.clock: Callable[[], float] = time.time
        self.seen: list[tuple[str, str | None]] = []
        """Path and password of every request."""
        self.narrowed: list[dict[str, Any]] = []
        self.asked: list[str] = []
        """The requests that the API received."""
        self.redirect_to: str | None = None
        self.during: Callable[[], None] = lambda: None
        """Called while a client waits for the answer to what it has pushed."""
        self.app_key = make_key(folder / "app.pem")
        self.app_key_file = folder / "app.pem"
        self.certificate, key = make_certificate(folder)
        server = self

        class Handler(_Handler):
            owner = server

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, key)
        self._http.socket = context.wrap_socket(self._http.socket, server_side=True, do_handshake_on_connect=False)
        self.origin = f"https://127.0.0.1:{self._http.server_port}"
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.05})
        self._thread.start()

    def close(self) -> None:
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()

    def create(self, name: str = "ada/engine") -> Path:
        path = self.repositories / f"{name}.git"
        path.mkdir(parents=True)
        plain(path, "init", "--quiet", "--bare", "--initial-branch=main")
        plain(path, "config", "http.receivepack", "true")
        return path

    def url(self, name: str = "ada/engine") -> str:
        return f"{self.origin}/{name}.git"

    def issue(self) -> str:
        self.given += 1
        token = f"ghs_{self.given:04d}+Sëcret/".replace("ë", "e") + "x" * 30
        self.tokens.add(token)
        return token


class _Handler(BaseHTTPRequestHandler):
    owner: ClassVar[GitServer]
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None: ...

    def do_GET(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def _serve(self) -> None:
        body = self._body()
        if self.path.startswith("/api/v3/"):
            self._api(self.path.removeprefix("/api/v3"), body)
            return
        password = self._password()
        self.owner.seen.append((self.path, password))
        if self.owner.redirect_to is not None:
            self._answer(302, b"", {"Location": self.owner.redirect_to + self.path})
        elif password not in self.owner.tokens:
            self._answer(401, b"", {"WWW-Authenticate": 'Basic realm="git"'})
        else:
            self._backend(body)

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        pieces = []
        while size := int(self.rfile.readline().strip(), 16):
            pieces.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(pieces)

    def _password(self) -> str | None:
        kind, _, value = self.headers.get("Authorization", "").partition(" ")
        return base64.b64decode(value).decode().partition(":")[2] if kind == "Basic" else None

    def _backend(self, body: bytes) -> None:
        path, _, query = self.path.partition("?")
        if path.endswith("git-receive-pack") and self.command == "POST":
            self.owner.during()
        done = subprocess.run(
            ["git", "http-backend"],
            input=body,
            env={
                **PLAIN,
                "GIT_PROJECT_ROOT": str(self.owner.repositories),
                "GIT_HTTP_EXPORT_ALL": "1",
                "PATH_INFO": path,
                "QUERY_STRING": query,
                "REQUEST_METHOD": self.command,
                "CONTENT_TYPE": self.headers.get("Content-Type", ""),
                "CONTENT_LENGTH": str(len(body)),
                "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
                "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
                "REMOTE_USER": "app",
                "REMOTE_ADDR": "127.0.0.1",
            },
            capture_output=True,
            timeout=LONG,
            check=False,
        )
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n") if ": " in line)
        status = int(headers.pop("Status", "200").split()[0])
        self._answer(status, content, headers)

    def _api(self, path: str, body: bytes) -> None:
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        try:
            claims = jwt.decode(
                token,
                self.owner.app_key.public_key(),
                algorithms=["RS256"],
                issuer=APP_ID,
                options={"require": ["iat", "exp", "iss"], "verify_exp": False, "verify_iat": False},
            )
            if not (claims["iat"] <= self.owner.clock() < claims["exp"] <= claims["iat"] + 600):
                raise jwt.InvalidTokenError("times")
        except jwt.InvalidTokenError:
            self._json(401, {"message": f"A JSON web token could not be decoded: {token}"})
            return
        self.owner.asked.append(path)
        if path == "/app":
            self._json(200, {"id": int(APP_ID), "slug": SLUG})
        elif path == f"/users/{SLUG}%5Bbot%5D":
            self._json(200, {"id": 1})
        elif re.fullmatch(r"/repos/ada/\w+/installation", path):
            self._json(200, {"id": INSTALLATION})
        elif path == f"/app/installations/{INSTALLATION}/access_tokens" and self.command == "POST":
            self.owner.narrowed.append(json.loads(body))
            until = datetime.datetime.fromtimestamp(self.owner.clock() + self.owner.lifetime, datetime.timezone.utc)
            answer = {"token": self.owner.issue(), "expires_at": until.strftime("%Y-%m-%dT%H:%M:%SZ")}
            self._json(201, answer)
        else:
            self._json(404, {"message": "Not Found"})

    def _json(self, status: int, answer: dict[str, Any]) -> None:
        self._answer(status, json.dumps(answer).encode(), {"Content-Type": "application/json"})

    def _answer(self, status: int, content: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
