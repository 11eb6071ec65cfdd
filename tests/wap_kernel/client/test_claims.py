"""The headers in which a process names its kernel and its notebook."""

from __future__ import annotations

from wap_kernel.client.claims import NOTEBOOK_HEADER, SESSION_HEADER, Claims


def test_a_process_without_a_notebook_claims_nothing() -> None:
    assert Claims().to_headers() == {}
    assert Claims.of_process({"JPY_SESSION_NAME": ""}).notebook is None


def test_a_name_that_would_end_the_header_is_sent_without_its_line_break() -> None:
    claims = Claims("k1", "/root/Größe\r\nHost: evil.ipynb")
    assert claims.to_headers() == {
        SESSION_HEADER: b"k1",
        NOTEBOOK_HEADER: "/root/GrößeHost: evil.ipynb".encode(),
    }


def test_a_name_that_is_not_utf_8_can_be_sent() -> None:
    assert Claims(None, "a\udcff.ipynb").to_headers()[NOTEBOOK_HEADER].isascii()
