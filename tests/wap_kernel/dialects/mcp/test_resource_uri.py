"""Files as `file:` URIs and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wap_kernel.dialects.mcp.resource_uri import build_template, build_uri, guess_media_type, parse_uri
from wap_kernel.model.errors import InvalidArgument, PermissionDenied, WapError

ROOT = "/home/me/a project"
names = st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=20)


@given(st.lists(names.filter(lambda name: name not in (".", "..")), min_size=1, max_size=4))
def test_a_path_becomes_a_uri_and_comes_back(parts: list[str]) -> None:
    path = "/".join(parts)
    uri = build_uri(ROOT, path)
    assert uri.isascii() and uri.startswith("file:///home/me/a%20project/")
    assert parse_uri(uri, (ROOT,)) == path


def test_the_template_is_what_the_uris_are_made_by() -> None:
    assert build_template(ROOT).replace("{+path}", "a/b.py") == build_uri(ROOT, "a/b.py")
    assert build_template("/") == "file:///{+path}"


@given(st.text(max_size=100))
def test_no_text_is_a_path_that_begins_with_a_slash(text: str) -> None:
    for uri in (text, f"file://{text}", f"file://{ROOT}/{text}"):
        try:
            assert not parse_uri(uri, (ROOT,)).startswith("/")
        except WapError:
            continue


@pytest.mark.parametrize("uri", ["", "a", "http://x/", "file:a", "file:", "file://h/a", "file:///a?b", "file://[/a"])
def test_what_names_no_file_is_an_error(uri: str) -> None:
    with pytest.raises(InvalidArgument, match="uri"):
        parse_uri(uri, (ROOT,))


def test_a_file_elsewhere_is_refused() -> None:
    with pytest.raises(PermissionDenied):
        parse_uri("file:///etc/passwd", (ROOT,))
    with pytest.raises(PermissionDenied):
        parse_uri("file:///home/me/a%20project2/x", (ROOT,))


@pytest.mark.parametrize(
    ("path", "expected"), [("a.py", "text/x-python"), ("b.ipynb", "application/x-ipynb+json"), ("Makefile", None)]
)
def test_media_types(path: str, expected: str | None) -> None:
    assert guess_media_type(path) == expected
