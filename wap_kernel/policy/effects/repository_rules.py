"""Judge changes in folders of git: what git itself writes is applied, what would make git run something is not. Pure.

* In a repository that was there before, git changes objects, references, the index and its state. Its configuration,
  hooks and the files that lead git elsewhere are for the person alone.
* In a repository that the command made, hooks and such files are left out, and the configuration is cleaned.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from wap_kernel.model.changes import Change, ChangeKind
from wap_kernel.policy.effects.git_config import clean_config
from wap_kernel.policy.effects.judgement import EffectFacts, RefusedChange
from wap_kernel.policy.effects.repositories import (
    ESSENTIAL,
    GIT,
    OBEYED,
    Age,
    GitFolder,
    Repositories,
    RepositoryPath,
    join_git,
)

RULE = "effects.repository"
_ESSENTIAL = frozenset((name,) for name in ESSENTIAL)
_OBEYED = frozenset(tuple(entry.split("/")) for entry in OBEYED)
_RUNS_PROGRAMS = re.compile(rb"^\s*(?:exec|x)\s", re.MULTILINE)
"""Lines of a rebase's list that run a program when the person continues the rebase."""
_STRATEGIES = frozenset(("rebase-merge/strategy", "rebase-apply/strategy", "sequencer/opts"))
"""Files that name the strategy of a merge. Git takes `../x` for the program `git-merge-../x` of the present folder."""
_PROGRAM_PATH = re.compile(rb"[/\\]")


@dataclass
class RepositoryJudgement:
    """The decision on the changes in folders of git."""

    inside: dict[str, GitFolder] = field(default_factory=dict)
    """The changed paths in a `.git`, which policy closes to the file tools and opens to git."""
    refused: dict[str, RefusedChange] = field(default_factory=dict)
    rewritten: dict[str, bytes] = field(default_factory=dict)
    omitted: list[RefusedChange] = field(default_factory=list)


def judge_repositories(
    changes: Iterable[Change], repositories: Repositories, facts: EffectFacts
) -> RepositoryJudgement:
    """Return which changes in folders of git are refused, and what is left out of those that are applied."""
    found = RepositoryJudgement()
    destroyed: dict[str, bool] = {}
    for change in changes:
        path = repositories.locate(change.path)
        if path is None:
            if change.source is not None and repositories.locate(change.source) is not None:
                found.refused[change.path] = _refuse(change, "A folder of a repository is not moved")
            continue
        if not path.folder.is_bare:
            found.inside[change.path] = path.folder
        folder = path.folder.path
        if folder not in destroyed:
            destroyed[folder] = path.folder.age is Age.OLD and _is_destroyed(path.folder, repositories)
        if destroyed[folder]:
            reason = f'The repository "{folder}" would be deleted'
        else:
            reason = next(_find_reasons(change, path, repositories, facts, found), "")
        if reason:
            found.refused[change.path] = _refuse(change, reason)
    return found


def _refuse(change: Change, reason: str) -> RefusedChange:
    return RefusedChange(change.path, RULE, reason)


def _is_destroyed(folder: GitFolder, repositories: Repositories) -> bool:
    """Return whether a repository that was there before would be none afterwards."""
    needed = (folder.path, *(join_git(folder.path, name) for name in ("HEAD", "objects", "refs")))
    return any(repositories.was_there(path) and not repositories.is_there(path) for path in needed)


def _find_reasons(
    change: Change, path: RepositoryPath, repositories: Repositories, facts: EffectFacts, found: RepositoryJudgement
) -> Iterator[str]:
    """Yield the reasons not to apply a change; add what is rewritten to `found`."""
    folder, rest = path.folder, path.rest
    if not rest:
        if folder.path.split("/")[-1].casefold() == GIT:
            yield from _judge_git_entry(change, repositories, facts)
        return
    if change.kind is ChangeKind.MOVED:
        yield "A folder of a repository is not moved"
    if change.after.kind == "link":
        yield "A link in a repository would make git read elsewhere"
    if path.is_stray and change.after.kind != "folder":
        yield "The file lies among the repositories of submodules and belongs to none"
    if change.kind is ChangeKind.CREATED and rest[-1].endswith(".lock") and change.after.kind == "file":
        yield "Git was interrupted, and its lock would block the repository"
    names = tuple(name.casefold() for name in rest)
    if GIT in names:
        yield "A repository lies in no other one's folder of git"
    if names[0] in ("remotes", "branches") and len(names) > 1:
        yield "Git would take addresses of remotes from it"
    if names[0] == "rebase-merge" and names[-1].startswith("git-rebase-todo") and change.after.kind == "file":
        content = facts.read(change.path)
        if content is None or _RUNS_PROGRAMS.search(content):
            yield "The list of the rebase runs programs"
    if "/".join(names) in _STRATEGIES and change.after.kind == "file":
        content = facts.read(change.path)
        if content is None or _PROGRAM_PATH.search(content):
            yield "The strategy of the merge is a program"
    if _makes_repository(folder, rest) and any(
        repositories.was_there(join_git(folder.path, entry)) for entry in OBEYED
    ):
        yield "The folder would become a repository that obeys files which were there before"
    if names[:1] in _OBEYED or names[:2] in _OBEYED or names[:3] in _OBEYED:
        if folder.age is Age.OLD:
            yield "Git runs programs or reads elsewhere because of it, so only a person changes it"
        else:
            yield from _judge_new_obeyed(change, folder, names, facts, found)


def _makes_repository(folder: GitFolder, rest: tuple[str, ...]) -> bool:
    """Return whether the entry makes an ordinary folder a repository."""
    return folder.is_bare and folder.outer is None and folder.age is Age.NEW and rest in _ESSENTIAL


def _judge_git_entry(change: Change, repositories: Repositories, facts: EffectFacts) -> Iterator[str]:
    """Yield the reason not to apply a `.git` itself. One that was there before may lead to another module."""
    if change.kind is ChangeKind.CREATED and change.after.kind == "folder":
        return
    is_file = change.after.kind == "file" and change.before.kind in ("absent", "file")
    if not is_file or change.kind not in (ChangeKind.CREATED, ChangeKind.CHANGED):
        if change.kind is ChangeKind.CREATED:
            yield "A link named .git would make git read elsewhere"
        yield "A repository that was there before is neither moved, replaced nor deleted"
    else:
        content = facts.read(change.path)
        if content is None or repositories.resolve_gitlink(change.path, content) is None:
            yield "The file leads git to a folder that is no submodule or worktree of the workspace"


def _judge_new_obeyed(
    change: Change, folder: GitFolder, names: tuple[str, ...], facts: EffectFacts, found: RepositoryJudgement
) -> Iterator[str]:
    is_folder = change.after.kind == "folder"
    if names[0] == "hooks":
        if not (is_folder and len(names) == 1) and not names[-1].endswith(".sample"):
            yield "A hook is a program that git runs"
    elif names == ("config",) and change.after.kind == "file":
        content = facts.read(change.path)
        cleaned = None if content is None else clean_config(content, _worktree_of(folder))
        if cleaned is None:
            yield "The configuration of the repository cannot be parsed"
        else:
            if cleaned.content != content:
                found.rewritten[change.path] = cleaned.content
            if cleaned.omitted:
                keys = ", ".join(cleaned.omitted[:5]) + (", ..." if len(cleaned.omitted) > 5 else "")
                found.omitted.append(RefusedChange(change.path, RULE, f"Left out of the configuration: {keys}"))
    elif names == ("commondir",) and folder.is_worktree:
        if facts.read(change.path) != b"../..\n":
            yield "It leads git out of the repository"
    else:
        yield "Git runs programs or reads elsewhere because of it"


def _worktree_of(folder: GitFolder) -> tuple[str, str] | None:
    """Return the folder of a submodule's repository, and the folder that its files must stay in."""
    return (folder.path, folder.top) if folder.is_module else None
