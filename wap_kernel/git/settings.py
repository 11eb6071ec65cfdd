"""Parse the trait `WapExtension.git`: the remotes that may be reached, their credential, and the committer."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from wap_kernel.git.remote.credentials import CredentialSource, NoCredential, TokenFile
from wap_kernel.model.errors import InvalidArgument, ProviderUnavailable
from wap_kernel.model.git.results import Person
from wap_kernel.model.hints import tell_user
from wap_kernel.policy.git_remotes import PROTECTED_BRANCHES, Remote, parse_remote, refuse_remote
from wap_kernel.redaction.redactor import Redactor

_SSH_ADDRESS = re.compile(r"(?:ssh://)?git@([A-Za-z0-9.-]+)[:/]([^\s:@]+)\Z")


@dataclass(frozen=True)
class GitSettings:
    """The server administrator's settings for git."""

    allowed: tuple[str, ...] = ()
    """Remotes that may be reached: `https://github.com/ada/*`. Host and scheme are literal. Empty: none at all."""
    source: CredentialSource = field(default_factory=NoCredential)
    identity: Person | None = None
    """The committer. None: the one that the credential source names, else see `identity.py`."""
    ca_file: str | None = None
    """Certificates to trust instead of the system's."""
    protected: tuple[str, ...] = PROTECTED_BRANCHES
    """Patterns of branches to which a push needs an approval of its own."""

    def to_dict(self) -> dict[str, list[str]]:
        """Return the part of the settings that a caller sees with the policy."""
        return {"remotes": list(self.allowed), "protectedBranches": list(self.protected)}

    def committer(self) -> Person | None:
        return self.identity or self.source.identity()

    def resolve_remote(self, url: str) -> Remote:
        """Return the remote at `url`; raise for one that is not allowed, without quoting the address."""
        resolved = parse_remote(to_https(url), protected=self.protected, ca_file=self.ca_file)
        if (refused := refuse_remote(resolved.url, self.allowed)) is not None:
            raise refused
        return resolved

    def require_remote(self) -> None:
        """Raise ProviderUnavailable if the settings allow no remote at all."""
        if not self.allowed:
            raise ProviderUnavailable(
                "No git remote is configured for this server, so nothing can be fetched, pulled, pushed or cloned.",
                hint=tell_user("An administrator names them, and what opens them, in WapExtension.git (docs/git.md)."),
            )


def to_https(url: str) -> str:
    """Return the https address for an ssh address that people clone by; any other address stays as it is."""
    match = _SSH_ADDRESS.match(url)
    return f"https://{match[1]}/{match[2]}" if match else url


# -- the trait


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, alias_generator=to_camel, populate_by_name=True)


class _IdentitySection(_Section):
    name: str = Field(min_length=1)
    email: str = Field(min_length=3)


class _AppSection(_Section):
    id: str = Field(min_length=1)
    key_file: str = Field(min_length=1)
    installation_id: int | None = None
    base_url: str = "https://github.com"


_Pattern = Annotated[str, Field(pattern=r"^[^\s:^~\\]{1,200}$")]


class _GitSection(_Section):
    remotes: list[str] = Field(default_factory=list)
    token_file: str | None = None
    github_app: _AppSection | None = None
    identity: _IdentitySection | None = None
    ca_file: str | None = None
    protected_branches: list[_Pattern] = Field(default_factory=lambda: list(PROTECTED_BRANCHES))


def parse_git_settings(trait: Mapping[str, Any]) -> GitSettings:
    """Parse the trait `WapExtension.git`; raise InvalidArgument that names the part that is wrong."""
    try:
        section = _GitSection.model_validate(dict(trait))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise _settings_error(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None
    if section.token_file is not None and section.github_app is not None:
        raise _settings_error("tokenFile and githubApp exclude each other")
    for pattern in section.remotes:
        parts = urlsplit(pattern)
        if parts.scheme != "https" or not parts.netloc or "*" in parts.netloc or "@" in parts.netloc:
            raise _settings_error(f"remotes: {pattern!r} is not like https://github.com/ada/*")
    identity = None if section.identity is None else Person(section.identity.name, section.identity.email)
    return GitSettings(
        allowed=tuple(section.remotes),
        source=_build_credential_source(section, identity),
        identity=identity,
        ca_file=section.ca_file,
        protected=tuple(section.protected_branches),
    )


def _build_credential_source(section: _GitSection, identity: Person | None) -> CredentialSource:
    if section.github_app is not None:
        from wap_kernel.git.remote.github_app import GitHubApp

        app = section.github_app
        return GitHubApp(
            app.id,
            app.key_file,
            installation_id=app.installation_id,
            base_url=app.base_url,
            identity=identity,
            ca_file=section.ca_file,
        )
    if section.token_file is None:
        return NoCredential(identity)
    origins = {f"{parts.scheme}://{parts.netloc}" for parts in map(urlsplit, section.remotes)}
    if len(origins) != 1:
        raise _settings_error("tokenFile: its token is for one host, so all remotes must be there")
    return TokenFile(section.token_file, origin=origins.pop(), identity=identity)


def _settings_error(text: str) -> InvalidArgument:
    return InvalidArgument(f"WapExtension.git: {Redactor()(text)}.", hint="See docs/git.md.")
