"""`wap token`, against a real server that it finds by itself."""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

from jupyter_ext.tokens.rate_limits import RateLimits
from tests.support.server_processes import LiveServer, start_server
from wap_kernel.cli import token as tokens_cli
from wap_kernel.client import discovery
from wap_kernel.model.errors import WapError

TOKEN = r"wap_[0-9a-f]{12}_[A-Za-z0-9_-]{43}"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    with start_server(tmp_path_factory.mktemp("server")) as started:
        (started.root / "below").mkdir()
        yield started


@pytest.fixture
def at_the_server(server: LiveServer, monkeypatch: pytest.MonkeyPatch) -> LiveServer:
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(server.root.parent / "runtime"))
    monkeypatch.delenv("JPY_PARENT_PID", raising=False)
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")  # nothing is there
    monkeypatch.chdir(server.root / "below")
    return server


@pytest.fixture
def wap_token(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[str, str]]:
    """`wap token ...`: what it writes to stdout and stderr."""

    def run(*arguments: str) -> tuple[str, str]:
        parser = argparse.ArgumentParser()
        tokens_cli.add_arguments(parser)
        assert tokens_cli.run(parser.parse_args(arguments)) == 0
        written = capsys.readouterr()
        return written.out, written.err

    return run


def _call(server: LiveServer, token: str, tool: str) -> int:
    status, _ = server.request("POST", f"wap/api/{tool}", "{}", Authorization=f"Bearer {token}")
    return status


def test_create_list_revoke(at_the_server: LiveServer, wap_token: Any) -> None:
    out, err = wap_token("create", "my agent", "--tool", "getWorkspaceInfo", "--tool", "readFile", "--expires", "2h")
    assert re.fullmatch(TOKEN + "\n", out)  # alone, for $(...)
    assert "my agent" in err
    assert "wap_..." in err
    token = out.strip()
    assert token not in err
    assert _call(at_the_server, token, "getWorkspaceInfo") == 200
    assert _call(at_the_server, token, "executeCommand") == 403

    token_id = token.split("_")[1]
    listed, _ = wap_token("list")
    (row,) = [line for line in listed.splitlines() if token_id in line]
    assert re.split(r"\s{2,}", row)[1:4] == ["my agent", "getWorkspaceInfo,readFile", "-"]
    assert token not in listed

    out, _ = wap_token("revoke", token_id)
    assert token_id in out
    assert _call(at_the_server, token, "getWorkspaceInfo") == 403
    assert "revoked" in wap_token("list")[0]


def test_revoke_by_name(at_the_server: LiveServer, wap_token: Any) -> None:
    first = wap_token("create", "twin")[0].strip()
    assert "for twin is revoked" in wap_token("revoke", "twin")[0]
    assert _call(at_the_server, first, "getWorkspaceInfo") == 403
    with pytest.raises(WapError, match="not valid any more"):
        wap_token("revoke", "twin")
    second, third = (wap_token("create", "twin")[0].strip() for _ in range(2))
    with pytest.raises(WapError, match="2 tokens have the name 'twin'") as refused:
        wap_token("revoke", "twin")
    ids = [token.split("_")[1] for token in (second, third)]
    assert all(one in refused.value.text for one in ids) and first.split("_")[1] not in refused.value.text
    wap_token("revoke", ids[0])
    wap_token("revoke", "twin")  # one is left
    assert [_call(at_the_server, token, "getWorkspaceInfo") for token in (second, third)] == [403, 403]


def test_in_json(at_the_server: LiveServer, wap_token: Any, tmp_path: Path) -> None:
    policy = tmp_path / "policy.json"
    policy.write_text('{"filesystem": {"access": "read"}}')
    out, err = wap_token("create", "x", "--preset", "standard", "--policy", str(policy), "--json")
    minted = json.loads(out)
    assert err == ""
    assert re.fullmatch(TOKEN, minted["token"])
    assert (minted["preset"], minted["policy"]) == ("standard", {"filesystem": {"access": "read"}})
    tokens = json.loads(wap_token("list", "--json")[0])["tokens"]
    assert tokens[0]["id"] == minted["id"]
    assert json.loads(wap_token("revoke", minted["id"], "--json")[0]) == {"revoked": minted["id"]}


def test_limits(at_the_server: LiveServer, wap_token: Any) -> None:
    given = ("--operations", "2", "--commands-per-minute", "0", "--bytes-per-day", "1000000")
    minted = json.loads(wap_token("create", "x", *given, "--json")[0])
    assert minted["limits"] == {"concurrentOperations": 2, "commandsPerMinute": 0, "bytesWrittenPerDay": 1_000_000}
    minted = json.loads(wap_token("create", "x", "--operations", "2", "--json")[0])
    assert minted["limits"] == RateLimits(concurrent_operations=2).model_dump(by_alias=True)


def test_the_help_tells_the_defaults(wap_token: Any, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        wap_token("create", "--help")
    shown = " ".join(capsys.readouterr().out.split())
    assert RateLimits() == RateLimits(concurrent_operations=8, commands_per_minute=60, bytes_written_per_day=1 << 30)
    assert [text for _, _, text in tokens_cli.LIMITS if text not in shown] == []
    assert re.findall(r"\(default: (.*?)\)", shown)[:8] == ["all", "all", "none", "none", "7d", "8", "60", "1 GiB"]


def test_a_long_list_is_shown_whole(at_the_server: LiveServer, wap_token: Any) -> None:
    for number in range(101):
        at_the_server.request("POST", "wap/tokens", json.dumps({"name": f"agent {number}"}))
    names = [token["name"] for token in json.loads(wap_token("list", "--json")[0])["tokens"]]
    assert {f"agent {number}" for number in range(101)} <= set(names)


def test_a_named_server(server: LiveServer, wap_token: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "none"))
    file = tmp_path / "token"
    file.write_text(f"{server.token}\n")
    assert "tokens" in json.loads(wap_token("list", "--json", "--url", server.url, "--token-file", str(file))[0])
    with pytest.raises(WapError, match="Not authenticated") as refused:
        wap_token("list", "--url", server.url)
    assert "password" in refused.value.text and "--token-file" in refused.value.text


REFUSED: dict[str, tuple[list[str], str]] = {
    "a limit that is none": (["create", "x", "--operations", "0"], "concurrentOperations"),
    "an unknown tool": (["create", "x", "--tool", "sudo"], "readFile"),
    "an unknown preset": (["create", "x", "--preset", "none"], "restrictive"),
    "an unknown token": (["revoke", "../../api/shutdown"], "no such token. `wap token list`"),
    "a policy that is missing": (["create", "x", "--policy", "missing.json"], "missing.json"),
    "a token file without an address": (["list", "--token-file", "x"], "--url"),
    "an address that is none": (["list", "--url", "file:///etc/passwd"], "not the address"),
    "nobody there": (["list", "--url", "http://127.0.0.1:9/"], "does not answer"),
}


@pytest.mark.parametrize(("arguments", "says"), REFUSED.values(), ids=REFUSED.keys())
def test_refusals_say_why(at_the_server: LiveServer, wap_token: Any, arguments: list[str], says: str) -> None:
    with pytest.raises(WapError) as refused:
        wap_token(*arguments)
    assert says in refused.value.text
    assert at_the_server.token not in refused.value.text


@pytest.mark.parametrize("expires", ["7", "d", "-1d", "7 days", "0d", "1y"])
def test_a_time_that_is_none(wap_token: Any, expires: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        wap_token("create", "x", f"--expires={expires}")
    assert "12h" in capsys.readouterr().err


# ------------------------------------------------------------------ finding a server


@pytest.fixture
def announce(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Leave the file of a running server: this process's, unless another pid is given."""
    runtime = tmp_path / "runtime"
    runtime.mkdir()
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(runtime))
    monkeypatch.delenv("JPY_PARENT_PID", raising=False)

    def announce(name: str, root: Path, **different: Any) -> None:
        root.mkdir(parents=True, exist_ok=True)
        info = {"pid": os.getpid(), "url": f"http://localhost:1/{name}/", "root_dir": str(root), "token": "t"}
        (runtime / f"jpserver-{name}.json").write_text(json.dumps({**info, **different}))

    return announce


def test_the_closest_root_wins(announce: Callable[..., None], tmp_path: Path) -> None:
    announce("outer", tmp_path / "a")
    announce("inner", tmp_path / "a" / "b")
    announce("sibling", tmp_path / "a" / "bc")
    assert discovery.find_server(str(tmp_path / "a" / "b" / "c")).url.endswith("/inner/")
    assert discovery.find_server(str(tmp_path / "a" / "bcd")).url.endswith("/outer/")


def test_a_kernel_finds_its_own_server(
    announce: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    announce("here", tmp_path / "a")
    announce("mine", tmp_path / "b", pid=os.getppid())
    monkeypatch.setenv("JPY_PARENT_PID", str(os.getppid()))
    assert discovery.find_server(str(tmp_path / "a")).url.endswith("/mine/")


def test_when_none_is_found_it_says_what_was_tried(announce: Callable[..., None], tmp_path: Path) -> None:
    announce("elsewhere", tmp_path / "elsewhere")
    announce("dead", tmp_path / "a", pid=2**22 + 1)  # over the kernel's largest
    (tmp_path / "runtime" / "jpserver-half.json").write_text('{"pid": ')
    with pytest.raises(WapError) as refused:
        discovery.find_server(str(tmp_path / "a"))
    for part in (str(tmp_path / "a"), str(tmp_path / "runtime"), str(tmp_path / "elsewhere"), "--url"):
        assert part in refused.value.text


BAD: list[dict[str, Any]] = [{"pid": "x"}, {"pid": None}, {"pid": 2**70}, {"root_dir": 3}, {"url": None}]


@pytest.mark.parametrize("different", BAD, ids=str)
def test_a_file_that_makes_no_sense_is_skipped(
    announce: Callable[..., None], tmp_path: Path, different: dict[str, Any]
) -> None:
    announce("bad", tmp_path / "a" / "b", **different)
    announce("good", tmp_path / "a")
    assert discovery.find_server(str(tmp_path / "a" / "b")).url.endswith("/good/")


def test_a_server_on_a_socket_is_refused(announce: Callable[..., None], tmp_path: Path) -> None:
    announce("socket", tmp_path / "a", sock="/run/x")
    with pytest.raises(WapError, match="UNIX socket"):
        discovery.find_server(str(tmp_path / "a"))


class Answering(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"tokens": []}')

    def log_message(self, *args: Any) -> None:
        """Nothing."""


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """Self-signed, with its key in the same file."""
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl to make a certificate with")
    file = tmp_path / "certificate.pem"
    names = ("-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1")
    kind = ("-x509", "-nodes", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-days", "2")
    subprocess.run(
        ["openssl", "req", *kind, *names, "-keyout", file, "-out", f"{file}.x"], check=True, stderr=subprocess.DEVNULL
    )
    file.write_text(file.read_text() + Path(f"{file}.x").read_text())
    return file


def test_a_certificate_that_is_not_trusted(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with HTTPServer(("127.0.0.1", 0), Answering) as https:
        https.socket = context.wrap_socket(https.socket, server_side=True)
        thread = threading.Thread(target=https.serve_forever)
        thread.start()
        server = discovery.RunningServer(f"https://127.0.0.1:{https.server_port}/", "secret")
        try:
            with pytest.raises(WapError, match=r"not trusted: self.signed certificate") as refused:
                server.request("GET", "wap/tokens")
            monkeypatch.setenv("SSL_CERT_FILE", str(certificate))  # as the hint says
            assert server.request("GET", "wap/tokens") == {"tokens": []}
        finally:
            https.shutdown()
            thread.join()
    assert "--url" in refused.value.text and "--token-file" in refused.value.text


class Redirecting(BaseHTTPRequestHandler):
    seen: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.seen.append(self.path)
        self.send_response(302)
        self.send_header("Location", "/elsewhere")
        self.end_headers()

    def log_message(self, *args: Any) -> None:
        """Nothing."""


def test_a_redirect_is_not_followed_with_the_token() -> None:
    with HTTPServer(("127.0.0.1", 0), Redirecting) as http:
        thread = threading.Thread(target=http.serve_forever)
        thread.start()
        try:
            with pytest.raises(WapError, match="302"):
                discovery.RunningServer(f"http://127.0.0.1:{http.server_port}/", "secret").request("GET", "wap/tokens")
        finally:
            http.shutdown()
            thread.join()
    assert Redirecting.seen == ["/wap/tokens"]


def test_a_server_does_not_show_its_token() -> None:
    assert "secret" not in repr(discovery.RunningServer("http://localhost/", "secret"))
