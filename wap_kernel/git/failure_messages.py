"""Turn git's messages into failures that say what happened and what to do next. Pure."""

from __future__ import annotations

import re

from wap_kernel.model.git.results import GitError, GitFailure, GitFailureReason

_TABLE: tuple[tuple[str, GitFailureReason, str], ...] = (
    (
        r"not a git repository|must be run in a work tree|cannot use bare repository",
        GitFailureReason.NO_REPOSITORY,
        "There is no git repository here. Run `git init`, clone one, or name the folder of one.",
    ),
    (
        r"promisor remote|transport '[^']*' not allowed",
        GitFailureReason.PARTIAL,
        "The repository is a partial clone, and what this needs was left at its remote. Clone it whole, or a person "
        "fetches what is missing.",
    ),
    (
        r"dubious ownership",
        GitFailureReason.OWNER,
        "The repository belongs to another user, so git does not trust it. Change its owner, or clone it.",
    ),
    (
        r"\.lock': File exists|Another git process seems to be running",
        GitFailureReason.LOCKED,
        "The repository is locked: another git command is at work, or one was interrupted. Try again; if nothing else "
        "runs, a person removes the file that ends in .lock in .git.",
    ),
    (
        r"Read-only file system|Device or resource busy|Permission denied|Operation not permitted",
        GitFailureReason.PROTECTED,
        "Git could not change a file that is protected here. Leave that path out.",
    ),
    (
        r"would be overwritten by|Please move or remove them|Your local changes|untracked working tree files",
        GitFailureReason.IN_THE_WAY,
        "Local changes are in the way. Commit them, or restore the files, and try again.",
    ),
    (
        r"CONFLICT|fix conflicts|needs merge|unmerged files|unresolved conflict|not concluded your merge|is unmerged"
        r"|resolve your current index first",
        GitFailureReason.CONFLICTS,
        "There are merge conflicts. Edit the files, add them, and commit.",
    ),
    (
        r"tell me who you are|empty ident|auto-detect email|no email was given|no name was given",
        GitFailureReason.IDENTITY,
        "Git does not accept the identity of the commit. Name another: author, like Ada <ada@example.org>.",
    ),
    (
        r"nothing to commit|no changes added to commit|nothing added to commit",
        GitFailureReason.NOTHING,
        "There is nothing to commit. Name the files, or add them first.",
    ),
    (
        r"is not fully merged",
        GitFailureReason.UNMERGED_BRANCH,
        "The branch has commits that are nowhere else. Merge it, or delete it with force.",
    ),
    (
        r"already exists|is already checked out",
        GitFailureReason.EXISTS,
        "There is one of that name already. Choose another.",
    ),
    (
        r"did not match any file|pathspec .* did not match",
        GitFailureReason.UNKNOWN_PATH,
        "Git knows no file at that path. Look at status.",
    ),
    (r"does not have any commits", GitFailureReason.NOTHING, "There is no commit yet."),
    (
        r"are ignored by one of your \.gitignore",
        GitFailureReason.UNKNOWN_PATH,
        "The path is ignored by .gitignore. Change that file if it shall be added.",
    ),
    (
        r"bad revision|unknown revision|ambiguous argument|Needed a single revision|invalid reference|not a commit"
        r"|bad object|branch '.*' not found|invalid object name|ambiguous object name",
        GitFailureReason.UNKNOWN_REVISION,
        "There is no such branch or commit. Look at branch and log.",
    ),
    # remote
    (
        r"Authentication failed|could not read (Username|Password)|error: 40[13]|Invalid username or",
        GitFailureReason.CREDENTIAL,
        "The remote refuses the credential: it may be revoked, expired or not meant for this repository. "
        "A person checks it in the server's settings.",
    ),
    (
        r"stale info",
        GitFailureReason.BEHIND,
        "The remote's branch is not as it was last seen from here, so nothing was overwritten. Fetch, look at what is "
        "new there, and push again.",
    ),
    (
        r"died of signal 25|File too large",
        GitFailureReason.TOO_LARGE,
        "The remote repository is too large to be fetched here. A person clones it.",
    ),
    (
        r"non-fast-forward|fetch first",
        GitFailureReason.BEHIND,
        "The remote has commits that you do not have. Pull, then push again.",
    ),
    (
        r"\[remote rejected\]|hook declined|GH00\d|protected branch",
        GitFailureReason.REFUSED,
        "The remote refuses this change by a rule of its own. Push to another branch.",
    ),
    (
        r"error: 404|repository .* not found|Repository not found|not valid: is this a git repository",
        GitFailureReason.NO_REMOTE,
        "The remote repository does not exist, or the credential may not see it.",
    ),
    (
        r"Could not resolve host|Failed to connect|Connection (refused|timed out|reset)|SSL|certificate|HTTP 5\d\d"
        r"|error: 5\d\d|unable to update url base from redirection|error: 30\d|unable to access|hung up unexpectedly",
        GitFailureReason.UNREACHABLE,
        "The remote cannot be reached as it is configured, or it redirects elsewhere. Try again later; if it stays, "
        "a person checks the remote's address.",
    ),
)
_PATTERNS = tuple((re.compile(pattern, re.IGNORECASE), reason, text) for pattern, reason, text in _TABLE)


def explain_failure(exit_code: int, stderr: str, stdout: str = "") -> GitFailure:
    """Return the failure for what git printed; git's own words stay in `stderr`."""
    output = f"{stderr}\n{stdout}"
    for pattern, reason, text in _PATTERNS:
        if pattern.search(output):
            return GitFailure(reason, text, exit_code, stderr)
    return GitFailure(GitFailureReason.OTHER, "Git could not do it; its own words are in stderr.", exit_code, stderr)


def parse_git_error(exit_code: int, stderr: str, stdout: str = "") -> GitError:
    return GitError(explain_failure(exit_code, stderr, stdout))
