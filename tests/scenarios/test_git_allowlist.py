"""An agent's git reaches the allowed remotes only, however it spells an address; so does the credential."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.agent_tokens import bearer, mint
from tests.support.git_server import GitServer
from tests.support.ordinary_user import open_user_folder, run_tests

OTHER = "eve/secret.git"
SPELLINGS = [
    *(f"ada/{up}/{OTHER}" for up in ("..", "%2e%2e", ".%2E", "..;", "..%2f..", "%252e%252e", "x/%2e%2e/%2e%2e")),
    *(
        f"ada%2f..%2f{OTHER}",
        f"ada/..%5c{OTHER}",
        f"/ada/%2e%2e/{OTHER}",
        f"ada/%2e%2e/{OTHER}?",
        f"ada/%2e%2e/{OTHER}#",
    ),
]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[GitServer]:
    server = GitServer(tmp_path / "git")
    server.create("ada/engine")
    server.create("eve/secret")
    yield server
    server.close()


@pytest.fixture
def wap_settings(server: GitServer, tmp_path: Path) -> dict[str, Any]:
    path = tmp_path / "git-token"
    path.write_text(server.issue())
    path.chmod(0o600)
    git = {"remotes": [f"{server.origin}/ada/*"], "tokenFile": str(path), "caFile": str(server.certificate)}
    return {"preset": "permissive", "policy": {"shell": {"unconfined": "allow"}}, "provider": "local", "git": git,
            "allow_unconfined": True}  # fmt: skip


async def test_no_spelling_of_an_address_leaves_the_allowlist(fetch: Any, server: GitServer) -> None:
    token = await mint(fetch)

    async def clone(url: str, path: str) -> Any:
        body = json.dumps({"action": "clone", "url": url, "path": path})
        return await fetch("wap/workspace/git", method="POST", body=body, headers=bearer(token))

    for number, spelling in enumerate(SPELLINGS):
        answer = await clone(f"{server.origin}/{spelling}", f"stolen{number}")
        assert answer.status >= 400 or answer.body.get("success") is False, (spelling, answer.body)
        assert server.seen == [], spelling
    answer = await clone(server.url("ada/engine"), "mine")
    assert answer.status == 200, answer.body
    assert [password for _, password in server.seen if password] != []


def test_as_an_ordinary_user() -> None:
    with open_user_folder() as folder:
        run_tests(folder, __file__)
