"""Denied paths that a command line names and that no mask would hide. Pure.

* Without a sandbox there are no masks: what is written out is noticed, so that `cat .env` asks. `grep -r` finds its own
  way, and so does a program that runs code.
* git has files of its own, also those that were committed once: `git show HEAD:.env` is a read of `.env`, and so is
  `git log -p -- .env`, in a sandbox too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from wap_kernel.commands.shell import Script
from wap_kernel.commands.words import SimpleCommand, Word
from wap_kernel.commands.wrappers import is_wrapper
from wap_kernel.files.paths import split
from wap_kernel.files.primitives import Access
from wap_kernel.policy.effective import Effective
from wap_kernel.policy.fitting import CommandFacts
from wap_kernel.policy.redirections import inside
from wap_kernel.policy.touches import Touch
from wap_kernel.policy.verdict import Verdict

GIT_SHOWS = frozenset("show log diff blame annotate cat-file grep archive ls-tree checkout restore whatchanged".split())
"""What of git shows files, or brings them back."""
GIT_BLAMES = frozenset({"blame", "annotate"})
"""And takes nothing but a revision and a path."""

Refuse = Callable[[Touch], Verdict | None]
"""Why a path inside is refused."""


def judge_arguments(
    script: Script, cwd: str, effective: Effective, facts: CommandFacts, refuse: Refuse
) -> Iterator[Verdict]:
    for command in script.commands:
        if not facts.confined:
            for word in command.words[1:]:
                texts = (word.text, word.text.partition("=")[2]) if word.known else ()
                for refusal in _refusals(word, texts, cwd, facts, refuse):
                    yield from _unconfined(refusal, effective)
        for word, text in _asked_of_git(command):
            yield from _refusals(word, (text,), cwd, facts, refuse)


def _refusals(word: Word, texts: Iterable[str], cwd: str, facts: CommandFacts, refuse: Refuse) -> Iterator[Verdict]:
    for text in filter(None, texts):
        path = inside(word, text, cwd, facts)
        refusal = None if path is None else refuse(Touch(path, Access.READ, folder=True))
        if refusal is not None:
            yield refusal


def _asked_of_git(command: SimpleCommand) -> Iterator[tuple[Word, str]]:
    """The paths that a command line asks git to show, with the words that name them: after `rev:` and after `--`."""
    words = [word.text for word in command.words]
    start = next((index for index, text in enumerate(words) if text.rpartition("/")[2] == "git"), None)
    if start is None or not all(is_wrapper(text) or text.startswith("-") or "=" in text for text in words[:start]):
        return
    shows = GIT_SHOWS.intersection(words[start:])
    are_paths = False
    for word in command.words[start + 1 :]:
        text = word.text
        if are_paths or (shows & GIT_BLAMES and not text.startswith("-")):
            yield word, text
        elif text == "--":
            are_paths = bool(shows)
        elif shows and ":" in text and not text.startswith("-"):
            path = text.rpartition(":")[2].lstrip("/")  # `:/.env` is one of the top folder's
            # `.git` is closed to the file tools and open to git.
            if ".git" not in split(path.casefold()):
                yield word, path


def _unconfined(refusal: Verdict, effective: Effective) -> Iterator[Verdict]:
    """A word may look like a path and be none, so this asks and does not deny."""
    for policy in effective.layers:
        reason = f"{refusal.reason}, and no sandbox hides it from a command"
        yield Verdict(policy.shell.unconfined, "unconfined", reason, refusal.suggestion, grantable=False)
