"""A workspace, a remote and the App between them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.support.git_repository import OPEN, Workspace, plain
from tests.support.git_server import APP_ID, GitServer
from wap_kernel.git.local.repository import Permits
from wap_kernel.git.remote.clone import clone
from wap_kernel.git.remote.credentials import CredentialSource
from wap_kernel.git.remote.github_app import GitHubApp
from wap_kernel.git.remote.server_repository import ServerRepository
from wap_kernel.git.remote.transfer import RemoteLink
from wap_kernel.model.git.results import CloneResult
from wap_kernel.policy.git_remotes import Remote, parse_remote


class Team:
    def __init__(self, workspace: Workspace, server: GitServer, state: Path) -> None:
        self.workspace = workspace
        self.server = server
        self.state = state
        state.mkdir(mode=0o700)
        self.app = self.make_app()

    def make_app(self, **options: Any) -> GitHubApp:
        settings = {
            "base_url": self.server.origin,
            "ca_file": str(self.server.certificate),
            "clock": lambda: self.server.clock(),
            **options,
        }
        return GitHubApp(APP_ID, str(self.server.app_key_file), **settings)

    def remote(self, name: str = "ada/engine") -> Remote:
        return parse_remote(self.server.url(name), ca_file=str(self.server.certificate))

    def link(self, source: CredentialSource | None = None, name: str = "ada/engine") -> RemoteLink:
        return RemoteLink(ServerRepository(str(self.state), self.remote(name), environment={}), source or self.app)

    def bare(self, name: str = "ada/engine") -> Path:
        return self.server.repositories / f"{name}.git"

    def there(self, *arguments: str) -> str:
        """Run git in the remote's repository."""
        return plain(self.bare(), *arguments)

    def colleague(self, folder: Path, path: str, content: str, branch: str = "main") -> str:
        """Push a change as a colleague."""
        if not folder.exists():
            plain(self.bare(), "clone", "--quiet", str(self.bare()), str(folder))
        plain(folder, "fetch", "--quiet")
        plain(folder, "switch", "--quiet", "--force-create", branch, f"origin/{branch}", check=False)
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(content)
        plain(folder, "add", "--all")
        plain(folder, "commit", "--quiet", "--message", f"colleague: {path}")
        plain(folder, "push", "--quiet", "origin", f"HEAD:refs/heads/{branch}")
        return plain(folder, "rev-parse", "HEAD").strip()

    def clone(self, path: str, *, permits: Permits = OPEN, **options: Any) -> CloneResult:
        return clone(self.link(), self.workspace.sandboxed_git(), permits, path, **options)
