"""Find the paths that a command line names to git, and options that print closed files. Pure.

`git show HEAD:.env` is a read of `.env`, and so is `git log -p -- .env`, in a sandbox too: git has files of its own,
also those that were committed once. What git prints without a name is closed by `git_attributes.py`, unless an option
says that everything is text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from wap_kernel.model.paths import split_path
from wap_kernel.policy.commands.redirections import MOVES, resolve_inside
from wap_kernel.policy.commands.rule_match import CommandFacts, skip_leading_options
from wap_kernel.policy.shell.parser import Script
from wap_kernel.policy.shell.syntax import SimpleCommand, Word
from wap_kernel.policy.shell.wrappers import is_wrapper

SHOWS = frozenset(
    """
    show log diff blame annotate cat-file grep archive ls-tree checkout restore whatchanged reflog stash diff-tree
    diff-index diff-files format-patch range-diff difftool
    """.split()
)
"""Subcommands of git that show files, or bring them back."""
TAKES_NO_BARE_PATHS = frozenset({"grep", "stash"})
"""The first word of these is something else, and nothing else looks like a path."""
TEXT_FOLLOWS = frozenset("-S -G --grep --author --committer --since --until --format -m -C -b -B --orphan".split())
"""Options whose value is no path, or a folder that is looked at by itself."""
AS_TEXT = re.compile(r"--text|--bin[ary]*|-[bchilmnpqrstuvwzEFHIPRW0-9]*a[A-Za-z0-9]*")
"""`git diff --text`, `git log -pa`; `--binary` is the same text in other letters."""
TAKES_MESSAGE = frozenset({"commit", "tag", "merge", "stash", "notes"})
"""Subcommands of git that take a text after `-m`; no alias can replace them."""
MESSAGE_OPTION = re.compile(r"-[aensqv]*m")
BATCH = re.compile(r"--batch(?!-check\b).*", re.DOTALL)
"""`git cat-file` then prints every object that its input names, or all that there are, and heeds no attribute."""
MAGIC = re.compile(r":(?:\((?P<long>[^)]*)\)|(?P<short>[/!^]+:?))(?P<path>.*)", re.DOTALL)
"""The magic that may stand before a path."""
MAX_FOLDERS = 64
"""Folders that are followed; each `cd` could double them."""


class GitPath(NamedTuple):
    """A path that git is asked to show."""

    word: Word
    path: str
    is_path: bool
    """True where it is certainly a path; otherwise it may be a revision or anything else."""


def find_git_paths(command: SimpleCommand) -> Iterator[GitPath]:
    """Yield the paths that the command asks git to show."""
    words = words_after_git(command)
    shows = SHOWS.intersection(word.text for word in words)
    are_paths, before = False, ""
    subcommand = next((word for word in words if word.text in shows), None)
    for word in words if shows else ():
        text = word.text
        if word is subcommand:
            continue
        if text == "--":
            are_paths = True
        elif text.startswith("-") and not are_paths:
            if text.startswith("-L"):  # `-L 1,5:.env`, of which the rest is the next word
                yield GitPath(word, text.rpartition(":")[2], is_path=":" in text)
        elif before not in TEXT_FOLLOWS and (are_paths or ":" in text or not shows & TAKES_NO_BARE_PATHS):
            yield from (GitPath(word, path, are_paths or ":" in text) for path in _paths(text, after_dashes=are_paths))
        before = text


def find_text_option(command: SimpleCommand) -> str | None:
    """Return the option with which git prints also what its attributes forbid, or None."""
    rest, _ = skip_leading_options("git", words_after_git(command))
    if not rest or rest[0].text not in SHOWS:
        return None
    options = [word.text for word in rest[1:]]
    pattern = BATCH if rest[0].text == "cat-file" else AS_TEXT
    return next(filter(pattern.fullmatch, options), None)


def find_messages(words: tuple[Word, ...]) -> frozenset[int]:
    """Return the positions of messages among the words of a git command: `git commit -am 'Mount it'`."""
    rest, is_harmless = skip_leading_options("git", words[1:])
    if not is_harmless or not rest or rest[0].literal not in TAKES_MESSAGE:
        return frozenset()
    start = len(words) - len(rest)
    return frozenset(
        number
        for number in range(start + 1, len(words))
        if words[number - 1].literal == "--message" or MESSAGE_OPTION.fullmatch(words[number - 1].literal or "")
    )


def find_git_folders(script: Script, cwd: str, facts: CommandFacts) -> tuple[str, ...]:
    """Return the folders in which git may run, and all above them: `rev:path` begins at the top of the repository."""
    found = {cwd: None}
    for command in script.commands:
        for before, word in zip(command.words, command.words[1:], strict=False):
            if (before.text in MOVES or before.text == "-C") and len(found) < MAX_FOLDERS:
                found |= dict.fromkeys(
                    path for base in found if (path := resolve_inside(word, word.text, base, facts)) is not None
                )
    above = (
        "/".join(split_path(folder)[:end]) or "." for folder in found for end in range(len(split_path(folder)) + 1)
    )
    return tuple(dict.fromkeys(above))


def words_after_git(command: SimpleCommand) -> tuple[Word, ...]:
    """Return the words after `git`, if that is what the command runs."""
    words = [word.text for word in command.words]
    start = next((index for index, text in enumerate(words) if text.rpartition("/")[2] == "git"), None)
    if start is None or not all(is_wrapper(text) or text.startswith("-") or "=" in text for text in words[:start]):
        return ()
    return command.words[start + 1 :]


def _paths(text: str, *, after_dashes: bool) -> Iterator[str]:
    magic = MAGIC.fullmatch(text)
    if magic is not None:
        if "exclude" not in (magic["long"] or "") and not set("!^") & set(magic["short"] or ""):
            yield magic["path"]
        return
    path = text if after_dashes else text.rpartition(":")[2]
    # `.git` is closed to the file tools and open to git.
    if after_dashes or ".git" not in split_path(path.casefold()):
        yield path.lstrip("/") if ":" in text else path
