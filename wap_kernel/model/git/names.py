"""Validate the names of branches, revisions and paths that callers send. Pure.

Git takes a word for an option, a pattern, a range or a search if it looks like one. So only words that git can take
for nothing else are accepted, and an error says what to write instead.
"""

from __future__ import annotations

import re

from wap_kernel.model.errors import InvalidArgument, PathClosed
from wap_kernel.model.limits import MAX_GIT_NAME_BYTES
from wap_kernel.model.paths import outside, parse_path, split_path

_BAD_IN_BRANCH = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|/\.|\.lock(/|$)|^[-./]|[./]$")
_RESERVED = re.compile(
    r"(HEAD|FETCH_HEAD|ORIG_HEAD|MERGE_HEAD|@|refs(/.*)?|[0-9a-f]{40}|[0-9a-f]{64})\Z", re.IGNORECASE
)
_REVISION = re.compile(r"[\w@][\w./@{}^~+#=,-]*\Z")
RANGE_DOTS = ("..", "...")
_ID = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?\Z")


def check_branch_name(name: str) -> str:
    """Return `name` if it is a branch name by git's rules that git cannot take for anything else, or raise."""
    if not name or len(name.encode("utf-8", "replace")) > MAX_GIT_NAME_BYTES or _BAD_IN_BRANCH.search(name):
        raise _build_branch_error(name)
    # Invisible characters are refused too: a person who approves a push must see the branch.
    if _RESERVED.match(name) or not name.isprintable():
        raise _build_branch_error(name)
    return name


def _build_branch_error(name: str) -> InvalidArgument:
    return InvalidArgument(
        f"Not a name for a branch: {name[:MAX_GIT_NAME_BYTES]!r}",
        hint="Use letters, digits, '-', '_' and '/', and no '-' first: feature/new-thing.",
    )


def check_revision(text: str) -> str:
    """Return `text` if it names one commit (a branch, a tag, an id, `HEAD~2`), or raise."""
    if (
        len(text) > MAX_GIT_NAME_BYTES
        or not _REVISION.match(text)
        or ".." in text
        or "{/" in text
        or not _is_unicode(text)
    ):
        raise InvalidArgument(
            f"Not the name of a commit: {text[:MAX_GIT_NAME_BYTES]!r}", hint="Use a branch, a tag, an id, or HEAD~2."
        )
    return text


def parse_revisions(text: str) -> tuple[str, ...]:
    """Split a commit or a range of commits into its words: (`a`,), (`a`, `..`, `b`)."""
    left, dots, right = text.partition("..")
    if not dots:
        return (check_revision(text),)
    if right.startswith("."):
        dots, right = "...", right[1:]
    return (check_revision(left or "HEAD"), dots, check_revision(right or "HEAD"))


def is_commit_id(text: str) -> bool:
    return _ID.match(text) is not None


def parse_git_path(text: str) -> str:
    """Return `text` as a path relative to the workspace; `..` is refused, since its target depends on links."""
    relative = parse_path(text)
    if ".." in split_path(relative):
        raise outside(text)
    if any(part.casefold() == ".git" for part in split_path(relative)):
        raise PathClosed(f"The path belongs to git itself: {text}", hint="Name files of the project.", path=text)
    return relative


def relative_to_repository(text: str, folder: str) -> str:
    """Return the workspace path `text` relative to the repository in `folder`."""
    names, above = split_path(parse_git_path(text)), split_path(folder)
    if names == above[: len(names)]:
        return "."  # the repository itself, or a folder that holds it
    if names[: len(above)] != above:
        raise InvalidArgument(f"The path is not in this repository: {text}", hint=f"The repository is in {folder!r}.")
    return "/".join(names[len(above) :])


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
