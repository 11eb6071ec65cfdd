"""What the server's administrator says about git: which remotes there are, who has a credential, who commits. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from wap_kernel.git.remote.credentials import CredentialSource, NoCredential
from wap_kernel.model.errors import ProviderUnavailable
from wap_kernel.model.git.results import Person
from wap_kernel.policy.git_remotes import PROTECTED, Remote, refusal, remote

_SCP = re.compile(r"(?:ssh://)?git@([A-Za-z0-9.-]+)[:/]([^\s:@]+)\Z")


@dataclass(frozen=True)
class GitSettings:
    allowed: tuple[str, ...] = ()
    """Remotes that may be reached: `https://github.com/ada/*`. Host and scheme are literal. Empty: none at all."""
    source: CredentialSource = field(default_factory=NoCredential)
    identity: Person | None = None
    """Who commits. None: whom the source of credentials names, else whom the repository's own config names."""
    ca_file: str | None = None
    """Certificates to trust instead of the system's."""
    protected: tuple[str, ...] = PROTECTED
    """Patterns of branches to which a push is a question of its own."""

    def to_dict(self) -> dict[str, list[str]]:
        """For whoever asks what the policy is."""
        return {"remotes": list(self.allowed), "protectedBranches": list(self.protected)}

    def committer(self) -> Person | None:
        return self.identity or self.source.identity()

    def remote(self, url: str) -> Remote:
        """The remote at `url`, wherever that was read; what is not allowed is refused without being quoted."""
        found = remote(by_https(url), protected=self.protected, ca_file=self.ca_file)
        if (refused := refusal(found.url, self.allowed)) is not None:
            raise refused
        return found

    def require_any(self) -> None:
        if not self.allowed:
            raise ProviderUnavailable(
                "No git remote is configured for this server, so nothing can be fetched, pulled, pushed or cloned.",
                hint="An administrator names them, and what opens them, in WapExtension.git (docs/git.md).",
            )


def by_https(url: str) -> str:
    """What people clone by ssh the server reaches by https, at the same place."""
    match = _SCP.match(url)
    return f"https://{match[1]}/{match[2]}" if match else url
