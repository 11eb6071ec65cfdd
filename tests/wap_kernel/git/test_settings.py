"""The trait `WapExtension.git`: what it means, and what is wrong with it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from wap_kernel.git.remote.credentials import NoCredential, TokenFile
from wap_kernel.git.remote.github_app import GitHubApp
from wap_kernel.git.settings import parse_git_settings
from wap_kernel.model.errors import InvalidArgument, ProviderUnavailable
from wap_kernel.model.git.results import Person
from wap_kernel.policy.git_remotes import PROTECTED_BRANCHES


def test_without_a_word_there_is_no_remote() -> None:
    settings = parse_git_settings({})
    assert isinstance(settings.source, NoCredential)
    with pytest.raises(ProviderUnavailable, match="No git remote"):
        settings.require_remote()


def test_a_token_in_a_file_is_hidden() -> None:
    settings = parse_git_settings({"remotes": ["https://example.org/a/*"], "tokenFile": "/etc/token"})
    assert isinstance(settings.source, TokenFile)
    assert settings.source.secret_paths == ("/etc/token",)
    assert settings.resolve_remote("git@example.org:a/b.git").url.startswith("https://example.org/a/b")


def test_an_app_and_who_commits() -> None:
    app = {"id": "1", "keyFile": "/etc/key.pem", "installationId": 7, "baseUrl": "https://ghe.example"}
    said = {"remotes": ["https://ghe.example/*"], "githubApp": app, "identity": {"name": "Ada", "email": "a@b.c"}}
    settings = parse_git_settings(said)
    assert isinstance(settings.source, GitHubApp)
    assert settings.source.secret_paths == ("/etc/key.pem",)
    assert settings.committer() == Person("Ada", "a@b.c")


@pytest.mark.parametrize(
    ("said", "where"),
    [
        ({"remote": []}, "remote"),
        ({"remotes": "https://x/*"}, "remotes"),
        ({"remotes": ["http://x.org/*"]}, "http://x.org"),
        ({"remotes": ["https://*/a"]}, "remotes"),
        ({"remotes": ["https://user:pw@x.org/"]}, "remotes"),
        ({"tokenFile": "/t"}, "one host"),
        ({"remotes": ["https://a.org/*", "https://b.org/*"], "tokenFile": "/t"}, "one host"),
        ({"tokenFile": "/t", "githubApp": {"id": "1", "keyFile": "/k"}}, "exclude"),
        ({"githubApp": {"id": "1"}}, "keyFile"),
        ({"identity": {"name": "", "email": "a@b"}}, "identity"),
        ({"protectedBranches": "main"}, "protectedBranches"),
        ({"protectedBranches": ["a b"]}, "protectedBranches"),
        ({"protectedBranches": [""]}, "protectedBranches"),
    ],
)
def test_what_is_wrong_is_named(said: dict[str, Any], where: str) -> None:
    with pytest.raises(InvalidArgument, match=where) as caught:
        parse_git_settings(said)
    assert "pw" not in caught.value.text


def test_protected_branches() -> None:
    assert parse_git_settings({}).protected == PROTECTED_BRANCHES
    settings = parse_git_settings({"remotes": ["https://h.org/*"], "protectedBranches": ["trunk", "v/*"]})
    there = settings.resolve_remote("https://h.org/a/b.git")
    assert [there.is_protected(branch) for branch in ("trunk", "v/1", "main")] == [True, True, False]
    assert parse_git_settings({"protectedBranches": []}).protected == ()


@pytest.mark.parametrize("absent", ["jwt", "cryptography"])
def test_an_app_without_its_extra_says_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, absent: str
) -> None:
    monkeypatch.setitem(sys.modules, absent, None)  # an import of it fails
    app = {"id": "1", "keyFile": str(tmp_path / "key.pem")}
    settings = parse_git_settings({"remotes": ["https://github.com/ada/*"], "githubApp": app})
    remote = settings.resolve_remote("https://github.com/ada/engine.git")
    for use in (lambda: settings.source.credential(remote), settings.committer):
        with pytest.raises(ProviderUnavailable, match=r"PyJWT.* is not installed") as caught:
            use()
        assert caught.value.hint == "Run pip install 'wap-kernel[github]' and restart the server."
    assert settings.source.secret_paths == (str(tmp_path / "key.pem"),)


def test_nothing_else_of_git_needs_the_extra() -> None:
    blocked = "import sys; sys.modules['jwt'] = sys.modules['cryptography'] = None\n"
    program = blocked + (
        "import wap_kernel.git.client, wap_kernel.git.remote.transfer, wap_kernel.git.remote.clone\n"
        "from wap_kernel.git.settings import parse_git_settings\n"
        "parse_git_settings({'remotes': ['https://h.org/*'], 'tokenFile': '/etc/token'})\n"
        "parse_git_settings({'remotes': ['https://h.org/*'], 'githubApp': {'id': '1', 'keyFile': '/etc/key'}})\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
