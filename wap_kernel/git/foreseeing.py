"""What a transfer would be about: the remote's address, the branch, the commit. A person agrees to these, not to names.

A branch is a name that whoever works in the workspace can move, and so is `origin`. So both are looked up when the
question is asked, again when it is answered, and what is then pushed is the commit that was shown. What is new there
and what is lost is counted from where the server itself last saw the branch: the workspace's own refs can be forged.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from wap_kernel.files import digest
from wap_kernel.files.paths import display
from wap_kernel.git import parsing
from wap_kernel.git.work import Work
from wap_kernel.operations import GitTransfer

if TYPE_CHECKING:
    from wap_kernel.git.host import Host

ABSENT = "absent"
MAX_COMMITS = 20
_REMOTE = "the remote"
_BRANCH = "the branch "
_SEEN = "what was last seen there"
_LISTED = "what is new and what is lost there"
_MORE = "... and more"
_SHOWN = (f"--max-count={MAX_COMMITS + 1}", "--no-show-signature", "--no-color", "--no-patch", "--format=%h %s")


@dataclass(frozen=True)
class Foreseen:
    remote: str | None = None
    branch: str | None = None
    commit: str | None = None
    """None: there is none, or the branch is to be deleted."""
    commits: tuple[str, ...] = ()
    """What would be new there, newest first: ids and subjects."""
    seen: str | None = None
    """The commit that the branch was at, there, when the server last saw it."""
    overwritten: tuple[str, ...] = ()
    """What would be lost there, by force or by deletion: ids and subjects."""

    @property
    def evidence(self) -> dict[str, str]:
        """What must be the same when it is done; see `runs/evidence.py`."""
        found = {_REMOTE: self.remote or ABSENT}
        if self.branch is None:
            return found
        found |= {f"{_BRANCH}{self.branch}": self.commit or ABSENT, _SEEN: self.seen or ABSENT}
        return {**found, _LISTED: digest.of_bytes("\n".join((*self.commits, "", *self.overwritten)).encode())}

    def told(self, operation: GitTransfer) -> dict[str, Any]:
        """For the person who is asked."""
        said = {
            "command": bound(operation, self.evidence).line,
            "cwd": operation.folder,
            "remote": self.remote,
            "branch": self.branch,
            "commit": self.commit,
            "commits": list(self.commits) or None,
            "seen": self.seen,
            "overwritten": list(self.overwritten) or None,
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


def new_commits(work: Work, commit: str, seen: str | None) -> tuple[str, ...]:
    return _subjects(work.read("log", *_SHOWN, commit, *_without(work, seen), "--", partial=True).stdout)


def lost_commits(work: Work, host: Host, commit: str | None, seen: str) -> tuple[str, ...]:
    """What is only in `seen`. Where the workspace has not got that, and where all of it goes, the newest of it."""
    if commit is None or not _without(work, seen):
        return _subjects(host.git("log", *_SHOWN, seen, "--")[1])
    return _subjects(work.read("log", *_SHOWN, seen, f"^{commit}", "--", partial=True).stdout)


def _without(work: Work, seen: str | None) -> tuple[str, ...]:
    return (f"^{seen}",) if seen is not None and work.find(seen) else ()


def _subjects(stdout: bytes) -> tuple[str, ...]:
    found = tuple(map(display, parsing.rows(stdout)))
    return found if len(found) <= MAX_COMMITS else (*found[:MAX_COMMITS], _MORE)
