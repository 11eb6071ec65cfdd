"""Parse addresses, reach them through proxies, and keep the token from other hosts."""

from __future__ import annotations

import json
import ssl

import pytest

from tests.support.scripted_server import client, ok, refusal, serving
from wap_kernel.client.http.address import Address, proxy_for
from wap_kernel.client.http.http_client import HttpClient
from wap_kernel.model.errors import InvalidArgument, WapError


def test_a_proxy_is_for_remote_hosts_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    with serving(ok) as served:
        monkeypatch.setenv("http_proxy", f"http://me:p%40ss@127.0.0.1:{served.port}")
        with client("http://jupyter.example/base/") as http:
            assert http.request("GET", "a") == {"a": 1}
        _, path, headers, _ = served.seen[0]
        assert path == "http://jupyter.example/base/a"
        assert headers["Host"] == "jupyter.example"
        assert headers["Proxy-Authorization"] == "Basic bWU6cEBzcw=="
        with client(served.url) as http:
            assert http.request("GET", "a") == {"a": 1}
        assert served.seen[1][1] == "/base/a"
        monkeypatch.setenv("no_proxy", "jupyter.example")
        assert proxy_for(Address.parse("http://jupyter.example/")) is None


def test_a_tunnel_does_not_show_the_token_to_the_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(lambda handler: handler.say(502, b"")) as served:
        monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{served.port}")
        with client("https://jupyter.example/") as http, pytest.raises(WapError, match="does not answer"):
            http.request("GET", "a")
        assert {seen[0] for seen in served.seen} == {"CONNECT"}
        assert "secret" not in json.dumps([seen[2] for seen in served.seen])


def test_http_where_https_was_meant() -> None:
    with serving(ok) as served:
        assert "http instead of https" in refusal(served.url.replace("http:", "https:")).text


def test_a_certificate_error_says_what_to_do() -> None:
    error = ssl.SSLCertVerificationError("x")
    error.verify_message = "self-signed certificate"
    assert "SSL_CERT_FILE" in HttpClient.open("https://localhost/", "").explain_failure(error).text


BAD = ["", "localhost:8888", "file:///etc/passwd", "http://", "http://a b/", "http://h:port/", "http://h:99999/"]


@pytest.mark.parametrize("url", BAD)
def test_an_address_that_is_none(url: str) -> None:
    with pytest.raises(InvalidArgument, match="not the address"):
        HttpClient.open(url, "")


@pytest.mark.parametrize(
    "url", ["http://h/lab?token=abc123", "http://me:abc123@h/", "http://h/#abc123", "ftp://x:abc123@h/?abc123"]
)
def test_a_secret_in_an_address_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        HttpClient.open(url, "")
    assert "abc123" not in refused.value.text


def test_a_token_that_cannot_be_sent_is_not_repeated() -> None:
    with pytest.raises(InvalidArgument) as refused:
        HttpClient.open("http://localhost/", "sec\nret")
    assert "ret" not in refused.value.text.replace("characters", "")
    assert HttpClient.open("http://localhost/", " secret\n").token == "secret"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://localhost:8888", "http://localhost:8888/"),
        ("HTTP://localhost:80/a", "http://localhost/a/"),
        ("http://[::1]:8888/an%40odd/base/", "http://[::1]:8888/an%40odd/base/"),
        ("https://h/ü/", "https://h/%C3%BC/"),
    ],
)
def test_addresses(url: str, shown: str) -> None:
    assert str(Address.parse(url)) == shown
