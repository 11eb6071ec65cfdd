"""What a transfer would be about: the remote's address, the branch, the commit. A person agrees to these, not to names.

A branch is a name that whoever works in the workspace can move, and so is `origin`. So both are looked up when the
question is asked, again when it is answered, and what is then pushed is the commit that was shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from wap_kernel.files.paths import display
from wap_kernel.git import parsing
from wap_kernel.git.work import Work
from wap_kernel.operations import GitTransfer

ABSENT = "absent"
MAX_COMMITS = 20
_REMOTE = "the remote"
_BRANCH = "the branch "


@dataclass(frozen=True)
class Foreseen:
    remote: str | None = None
    branch: str | None = None
    commit: str | None = None
    """None: there is none, or the branch is to be deleted."""
    commits: tuple[str, ...] = ()
    """What would be new there, newest first, as far as the workspace knows the remote: ids and subjects."""

    @property
    def evidence(self) -> dict[str, str]:
        """What must be the same when it is done; see `runs/evidence.py`."""
        found = {_REMOTE: self.remote or ABSENT}
        return found if self.branch is None else {**found, f"{_BRANCH}{self.branch}": self.commit or ABSENT}

    def told(self, operation: GitTransfer) -> dict[str, Any]:
        """For the person who is asked."""
        said = {
            "command": bound(operation, self.evidence).line,
            "cwd": operation.folder,
            "remote": self.remote,
            "branch": self.branch,
            "commit": self.commit,
            "commits": list(self.commits) or None,
        }
        return {name: value for name, value in said.items() if value is not None}


def bound(operation: GitTransfer, evidence: Mapping[str, str | None]) -> GitTransfer:
    """The operation with what was agreed to in the place of names."""
    update: dict[str, str] = {}
    if (remote := evidence.get(_REMOTE)) not in (None, ABSENT):
        update["url"] = str(remote)
    for name, commit in evidence.items():
        if name.startswith(_BRANCH):
            update["branch"] = name.removeprefix(_BRANCH)
            if commit not in (None, ABSENT):
                update["revision"] = str(commit)
    return operation.model_copy(update=update)


def new_commits(work: Work, branch: str, commit: str) -> tuple[str, ...]:
    known = work.ref(f"refs/remotes/{work.remote}/{branch}")
    options = (f"--max-count={MAX_COMMITS}", "--no-show-signature", "--no-color", "--no-patch", "--format=%h %s")
    ran = work.read("log", *options, commit, *((f"^{known}",) if known else ()), "--", partial=True)
    return tuple(map(display, parsing.rows(ran.stdout)))
