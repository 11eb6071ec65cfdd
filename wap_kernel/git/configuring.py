"""The trait `WapExtension.git`, read: which remotes may be reached, where the credential comes from, who commits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from wap_kernel.git.remote.credentials import CredentialSource, NoCredential, TokenFile
from wap_kernel.git.settings import GitSettings
from wap_kernel.model.errors import InvalidArgument
from wap_kernel.model.git.results import Person
from wap_kernel.policy.git_remotes import PROTECTED
from wap_kernel.redaction.redactor import Redactor


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, alias_generator=to_camel, populate_by_name=True)


class _Identity(_Section):
    name: str = Field(min_length=1)
    email: str = Field(min_length=3)


class _App(_Section):
    id: str = Field(min_length=1)
    key_file: str = Field(min_length=1)
    installation_id: int | None = None
    base_url: str = "https://github.com"


_Pattern = Annotated[str, Field(pattern=r"^[^\s:^~\\]{1,200}$")]


class _Git(_Section):
    remotes: list[str] = Field(default_factory=list)
    token_file: str | None = None
    github_app: _App | None = None
    identity: _Identity | None = None
    ca_file: str | None = None
    protected_branches: list[_Pattern] = Field(default_factory=lambda: list(PROTECTED))


def git_settings(said: Mapping[str, Any]) -> GitSettings:
    """Raises InvalidArgument, which says where it is wrong."""
    try:
        given = _Git.model_validate(dict(said))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise _wrong(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None
    if given.token_file is not None and given.github_app is not None:
        raise _wrong("tokenFile and githubApp exclude each other")
    for pattern in given.remotes:
        parts = urlsplit(pattern)
        if parts.scheme != "https" or not parts.netloc or "*" in parts.netloc or "@" in parts.netloc:
            raise _wrong(f"remotes: {pattern!r} is not like https://github.com/ada/*")
    identity = None if given.identity is None else Person(given.identity.name, given.identity.email)
    return GitSettings(
        allowed=tuple(given.remotes),
        source=_source(given, identity),
        identity=identity,
        ca_file=given.ca_file,
        protected=tuple(given.protected_branches),
    )


def _source(given: _Git, identity: Person | None) -> CredentialSource:
    if given.github_app is not None:
        from wap_kernel.git.remote.github_app import GitHubApp

        app = given.github_app
        return GitHubApp(
            app.id,
            app.key_file,
            installation_id=app.installation_id,
            base_url=app.base_url,
            identity=identity,
            ca_file=given.ca_file,
        )
    if given.token_file is None:
        return NoCredential(identity)
    origins = {f"{parts.scheme}://{parts.netloc}" for parts in map(urlsplit, given.remotes)}
    if len(origins) != 1:
        raise _wrong("tokenFile: its token is for one host, so all remotes must be there")
    return TokenFile(given.token_file, origin=origins.pop(), identity=identity)


def _wrong(text: str) -> InvalidArgument:
    return InvalidArgument(f"WapExtension.git: {Redactor()(text)}.", hint="See docs/git.md.")
