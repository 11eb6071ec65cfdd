"""Redaction: no form of a secret survives, and what is no secret does."""

from __future__ import annotations

import base64
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.time_limits import cpu_time
from wap_kernel.redaction.redactor import MASK, Redactor

ASCII = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=8, max_size=60)
SECRETS = st.one_of(ASCII, st.text(min_size=8, max_size=40).filter(lambda text: len(text.strip()) >= 8))
BYTES = st.binary(max_size=20)


def encoded(secret: str) -> bytes:
    return secret.encode("utf-8", "surrogateescape")


@given(SECRETS, st.text(max_size=20), st.text(max_size=20))
def test_the_secret_itself(secret: str, before: str, after: str) -> None:
    assert secret not in Redactor([secret])(before + secret + after).replace(MASK, "\0")


@given(SECRETS)
def test_url_encoded(secret: str) -> None:
    redact = Redactor([secret])
    for form in (quote(encoded(secret), safe=""), quote(encoded(secret)), quote_plus(encoded(secret))):
        for text in (form, form.lower(), quote(form, safe="")):
            if text.lower() == form.lower() and text != form and any(c.isupper() for c in secret):
                continue  # in lower case it is another secret
            assert redact(text).replace(MASK, "") == ""


@given(ASCII, BYTES, BYTES)
def test_base64_alone_or_within(secret: str, before: bytes, after: bytes) -> None:
    redact = Redactor([secret])
    data = before + encoded(secret) + after
    for form in (base64.b64encode(data), base64.urlsafe_b64encode(data), base64.encodebytes(data)):
        text = redact(f"token: <{form.decode()}>")
        core = base64.b64encode(encoded(secret)).decode()[: len(secret)]
        assert core not in text
        assert MASK in text


@given(ASCII)
def test_basic_authentication(secret: str) -> None:
    header = base64.b64encode(f"x-access-token:{secret}".encode()).decode()
    for text in (f"Authorization: Basic {header}", header, f"> authorization: basic {header}\n"):
        assert header not in Redactor([secret])(text)
    assert header not in Redactor()(f"Authorization: Basic {header}")


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("fatal: unable to access 'https://bob:hunter2@h.org/a/'", "fatal: unable to access 'https://***@h.org/a/'"),
        ("https://tok@h/a and ssh://u:p@h:22/b", "https://***@h/a and ssh://***@h:22/b"),
        ("https://a:p@ss:w@rd@h/x", "https://***@h/x"),
        ("Authorization: token abc", "Authorization: token ***"),
        ("authorization=Bearer abc.def", "authorization=Bearer ***"),
        ("ghp_0123456789abcdefghij ghs_0123456789abcdefghij", "*** ***"),
        ("https://h.org/a/b.git, mail ada@h.org, a@b:c/d", "https://h.org/a/b.git, mail ada@h.org, a@b:c/d"),
        ("ssh://git@h.org/a https://git@h", "ssh://git@h.org/a https://git@h"),
        ("https://git@x:hunter2@h/a https://git:hunter2@h", "https://***@h/a https://***@h"),
        ("-H 'Authorization: Bearer $TOKEN'", "-H 'Authorization: Bearer $TOKEN'"),
        (
            "Authorization: Bearer <token>, AUTHORIZATION: basic ab$",
            "Authorization: Bearer <token>, AUTHORIZATION: basic ***",
        ),
        ("def call(authorization: str) -> None: authorization = header", None),
        ("Authorization: 0123456789abcdef", "Authorization: ***"),
        ("x-eyJ-0123456789.eyJ0123456789.0123456789.", "x-***."),
        ("eyJ0123456789.0123456789.0123456789", "eyJ0123456789.0123456789.0123456789"),
        ("https://h.org/path@2x.png?q=a@b", "https://h.org/path@2x.png?q=a@b"),
        ("not found: https:/u:hunter2@h.example/x", "not found: https:/***@h.example/x"),
        ("https://u:it'shunter2@h.example/x", "https://***@h.example/x"),
        ("'https://u:a\"b'c@h' //u:hunter2@h/x (//u:hunter2@h)", "'https://***@h' //***@h/x (//***@h)"),
        ("[\"https://h\",\"a@b\"] {'https://h:8':'a@b'} 'https://h'+x@y", None),
        ('authorization = request.headers.get("Authorization")', None),
        ("def f(authorization: HTTPAuthorizationCredentials = x): ...", None),
        ("const authorization = process.env.AUTHORIZATION_HEADER", None),
        ("headers['Authorization']='Bearer abcdefghijkl'", "headers['Authorization']='Bearer ***'"),
        ('{"Authorization": "Basic aHVudGVyMg=="}', '{"Authorization": "Basic ***"}'),
        ("http://{user}:{password}@{host}/ https://$USER:$PASS@h.org https://u:${P}@h https://<u>:<p>@h", None),
        ("https://$USER:hunter2@h.org", "https://***@h.org"),
        ("u:hunter2hunter2@github.com, scp ada:hunter2secret@host:/x", "u:***@github.com, scp ada:***@host:/x"),
        ("mailto:alice1999@h.org From:bob2000bob@h.org npm:lodash4x@4.17.21 python:3.11-slim@sha256:ab12", None),
        ("C:/a@b file:/c@2 a//b:c@d // x:y@z //cdn.h/x@2 //u@h a:b@c @app.get('/x') a@b:c/d http:/h:8/@x", None),
    ],
)
def test_what_looks_like_a_credential(text: str, left: str | None) -> None:
    assert Redactor()(text) == (left or text)


@given(st.text(st.characters(codec="ascii", exclude_characters="@"), max_size=200))
def test_other_text_stays(text: str) -> None:
    if "uthorization" not in text:
        assert Redactor(["correct-horse-battery"])(text) == text


@pytest.mark.parametrize(
    "text",
    [
        *("a" * 10**6, "a.a-" * 250_000, "://" * 300_000, "eyJ-" * 250_000, "A1b2" * 250_000, "%25" * 300_000),
        *(("-eyJ" * 255 + ".eyJ" + "-eyJ" * 511 + " ") * 320, "authorization:" * 70_000, "gh" * 500_000),
        *(
            ":/" * 500_000,
            "a:/b:" * 200_000,
            " //a:" * 200_000,
            "a:/" + "b'" * 500_000,
            "a:/b'c" * 150_000,
            "/" * 10**6,
            "a1:b2345678@" * 80_000,
            "a:" + "b1" * 500_000,
            "Authorization: " + "a1" * 500_000 + "(",
            "authorization=1-" * 60_000 + "(",
        ),
    ],
)
def test_long_text_takes_no_long_time(text: str) -> None:
    """A second at most; with the square of its length, hours."""
    with cpu_time(20):
        Redactor(["%secret/with+signs", "A1b2A1b2A1b3"])(text)
