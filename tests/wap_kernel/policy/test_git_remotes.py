"""Which remotes may be reached: an address means the same to the allowlist, to git and to the host."""

from __future__ import annotations

from urllib.parse import unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wap_kernel.git.settings import GitSettings
from wap_kernel.model.errors import InvalidArgument, PermissionDenied
from wap_kernel.policy.git_remotes import parse_remote

SETTINGS = GitSettings(allowed=("https://host.example/ada/*", "https://host.example/My%20Team/*"))

TRAVERSALS = [
    *("..", ".", "%2e%2e", "%2E%2e", ".%2e", "%2e.", "%2e", "..;", "..;a=b", "%2e%2e;", "..%3b", "...", ". .", ".%20."),
    *("..%20", "%20", "%252e%252e", "%25%32%65%25%32%65", "..%00", "..%09", "%c0%ae%c0%ae", "%e0%80%ae%e0%80%ae"),
    *("%ef%bc%8e%ef%bc%8e", "%e2%80%a4%e2%80%a4", "%e2%80%a5", "\uff0e\uff0e", "..\\", "%5c..", "..%5c..", ""),
    *("%2f..", "..%2f..", "%2e%2e%2f", "%ef%bc%8f..", "%u002e%u002e", "%2", "%", "%zz", "?", "x?", "#", "x#", "..#"),
]


@pytest.mark.parametrize("part", TRAVERSALS)
def test_a_path_that_may_lead_upwards_is_refused(part: str) -> None:
    for url in (
        f"https://host.example/ada/{part}/eve/secret.git",
        f"https://host.example/ada/x{part}/../eve/secret",
        f"https://host.example/{part}/ada/x",
    ):
        with pytest.raises((InvalidArgument, PermissionDenied)):
            SETTINGS.resolve_remote(url)


@pytest.mark.parametrize(
    "url",
    [
        *("https://host.example@evil.example/ada/x", "https://host.example:443@evil.example/ada/x"),
        *("https://evil.example\\@host.example/ada/x", "https://host.example\\.evil.example/ada/x"),
        *("https://host.example.evil.example/ada/x", "https://host.example./ada/x", "https://host.example:8443/ada/x"),
        *("https://host.example:/ada/x", "https://host.example:443/ada/x", "https://host.exampl%65/ada/x"),
        *("https://host.example%2eevil.example/ada/x", "https://host\u3002example/ada/x", "https://evil.example/ada/x"),
        *(
            "https://host.example/Ada/x",
            "https://host.example/ada",
            "https:/host.example/ada/x",
            "https:host.example/ada/x",
        ),
        *("https://host.example//ada/x", "https://host.example/ada//x", "http://host.example/ada/x"),
        *("git@host.example:ada/../eve/x", "git@host.example:ada/%2e%2e/eve/x", "ssh://git@host.example/eve/x"),
        *("https://host.example/ada/x\t", "\thttps://host.example/ada/x", "https://host.example/ada/x\r\ny"),
    ],
)
def test_an_address_of_another_host_or_owner_is_refused(url: str) -> None:
    with pytest.raises((InvalidArgument, PermissionDenied)):
        SETTINGS.resolve_remote(url)


@pytest.mark.parametrize(
    "url",
    [
        *(
            "https://host.example/ada/x",
            "https://host.example/ada/x.git",
            "https://host.example/ada/x/",
            "https://HOST.example/ada/x",
        ),
        *(
            "https://host.example/ada/group/x.y-z_0~1+2",
            "https://host.example/ada/..x",
            "https://host.example/ada/x..y",
        ),
        *("https://host.example/My%20Team/x", "https://host.example/ada/caf%C3%A9", "git@host.example:ada/x.git"),
    ],
)
def test_an_address_that_is_allowed(url: str) -> None:
    assert SETTINGS.resolve_remote(url).url.casefold().startswith("https://host.example/")


PARTS = st.lists(st.sampled_from([*"./%2eE25fFcC0;a\\?# ", "%2e", "%2f", "%5c", ".."]), max_size=12).map("".join)


@given(PARTS)
def test_no_encoding_of_an_allowed_path_leads_elsewhere(part: str) -> None:
    """However often it is decoded, and whatever stands after a semicolon."""
    try:
        remote = parse_remote(f"https://host.example/ada/{part}/x")
    except InvalidArgument:
        return
    path = urlsplit(remote.url).path
    for _ in range(3):
        names = [name.partition(";")[0] for name in path.replace("\\", "/").split("/")]
        assert names[:2] == ["", "ada"] and not {".", ".."}.intersection(names)
        path = unquote(path)
