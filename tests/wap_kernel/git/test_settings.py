"""What an administrator says about git, and what is wrong with it."""

from __future__ import annotations

from typing import Any

import pytest

from wap_kernel.git.configuring import git_settings
from wap_kernel.git.remote.credentials import NoCredential, TokenFile
from wap_kernel.git.remote.github_app import GitHubApp
from wap_kernel.model.errors import InvalidArgument, ProviderUnavailable
from wap_kernel.model.git.results import Person
from wap_kernel.policy.git_remotes import PROTECTED


def test_without_a_word_there_is_no_remote() -> None:
    settings = git_settings({})
    assert isinstance(settings.source, NoCredential)
    with pytest.raises(ProviderUnavailable, match="No git remote"):
        settings.require_any()


def test_a_token_in_a_file_is_hidden() -> None:
    settings = git_settings({"remotes": ["https://example.org/a/*"], "tokenFile": "/etc/token"})
    assert isinstance(settings.source, TokenFile)
    assert settings.source.secret_paths == ("/etc/token",)
    assert settings.remote("git@example.org:a/b.git").url.startswith("https://example.org/a/b")


def test_an_app_and_who_commits() -> None:
    app = {"id": "1", "keyFile": "/etc/key.pem", "installationId": 7, "baseUrl": "https://ghe.example"}
    said = {"remotes": ["https://ghe.example/*"], "githubApp": app, "identity": {"name": "Ada", "email": "a@b.c"}}
    settings = git_settings(said)
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
        git_settings(said)
    assert "pw" not in caught.value.text


def test_protected_branches() -> None:
    assert git_settings({}).protected == PROTECTED
    settings = git_settings({"remotes": ["https://h.org/*"], "protectedBranches": ["trunk", "v/*"]})
    there = settings.remote("https://h.org/a/b.git")
    assert [there.is_protected(branch) for branch in ("trunk", "v/1", "main")] == [True, True, False]
    assert git_settings({"protectedBranches": []}).protected == ()
