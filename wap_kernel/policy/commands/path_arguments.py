"""Evaluate the denied paths that a command line names and that no sandbox mask would hide. Pure.

* Without a sandbox there are no masks: a path that is written out is noticed, so that `cat .env` asks. `grep -r` finds
  its own way, and so does a program that runs code.
* Paths that are named to git, in a sandbox too (`git_paths.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from wap_kernel.model.paths import Access, PathAccess
from wap_kernel.policy.commands import git_paths
from wap_kernel.policy.commands.redirections import resolve_inside
from wap_kernel.policy.commands.rule_match import CommandFacts, Program, Words, match_option
from wap_kernel.policy.effective import EffectivePolicy, is_allowed_paths_rule
from wap_kernel.policy.shell.parser import Script
from wap_kernel.policy.shell.syntax import Word
from wap_kernel.policy.verdict import Verdict, VerdictKind

Refuse = Callable[[PathAccess], Verdict | None]
"""A function that returns the verdict which refuses a path inside the workspace."""


def evaluate_arguments(
    script: Script, cwd: str, effective: EffectivePolicy, facts: CommandFacts, refuse: Refuse
) -> Iterator[Verdict]:
    folders = (
        git_paths.find_git_folders(script, cwd, facts) if any(map(git_paths.words_after_git, script.commands)) else ()
    )
    for command in script.commands:
        if not facts.confined:
            for word in command.words[1:]:
                texts = (word.text, word.text.partition("=")[2]) if word.known else ()
                for refusal in _refusals(word, texts, [cwd], facts, refuse):
                    yield from _ask_unconfined(refusal, effective)
        for name in git_paths.find_git_paths(command):
            found = _refusals(name.word, (name.path,), folders, facts, refuse)
            # Nearly every word is no path in allowedPaths, and most words are revisions.
            yield from (refusal for refusal in found if name.is_path or not is_allowed_paths_rule(refusal.rule))
        option = git_paths.find_text_option(command)
        if option is not None and effective.has_closed_paths:
            reason = f"With {option} git prints the contents of denied files as well"
            suggestion = f"Leave out {option}, or name the files that are wanted."
            yield Verdict(VerdictKind.ASK, "deniedPaths", reason, suggestion, grantable=False)


def _refusals(
    word: Word, texts: Iterable[str], folders: Sequence[str], facts: CommandFacts, refuse: Refuse
) -> Iterator[Verdict]:
    """Yield at most one refusal for each text.

    A text is denied if it is so from one of the folders. It is outside of the allowed paths only if it is so from all
    of them.
    """
    for text in filter(None, texts):
        paths = [path for folder in folders if (path := resolve_inside(word, text, folder, facts)) is not None]
        refusals = [refusal for path in paths if (refusal := refuse(PathAccess(path, Access.READ, folder=True)))]
        denied = next((refusal for refusal in refusals if not is_allowed_paths_rule(refusal.rule)), None)
        if denied is not None or (refusals and len(refusals) == len(paths)):
            yield denied or refusals[0]


def _ask_unconfined(refusal: Verdict, effective: EffectivePolicy) -> Iterator[Verdict]:
    """Yield verdicts that ask and do not deny, since a word may look like a path and be none."""
    for policy in effective.layers:
        reason = f"{refusal.reason}, and no sandbox hides it from a command"
        yield Verdict(
            policy.shell.unconfined, "unconfined", reason, refusal.suggestion, closes_path=True, grantable=False
        )


# -- names from a file

_SUMS = ("md5sum", "sha1sum", "sha224sum", "sha256sum", "sha384sum", "sha512sum", "b2sum", "cksum", "sum")
_OPTIONS_WITH_NAMES: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("wc", "du", "sort", "shuf"), ("--files0-from",)),
    **dict.fromkeys(_SUMS, ("-c", "--check")),
    "find": ("-files0-from",),
    "file": ("-f", "--files-from"),
    "tar": ("-T", "--files-from"),
    "git": ("--pathspec-from-file", "--includes"),
}
_READS_ARGUMENTS = frozenset("strings nm objdump size readelf ar ld gcc cc g++ clang javac java".split())
"""Programs that take `@list` for a file with further arguments."""


def may_read_names(program: Program, words: Words) -> bool:
    """Return whether the command may take names from a file, whose content no rule has seen."""
    if program.names & _READS_ARGUMENTS and any(not word.known or word.text[:1] in "@*?[" for word in words[1:]):
        return True
    options = (option for name in program.names for option in _OPTIONS_WITH_NAMES.get(name, ()))
    return any(match_option(option, words[1:], certain=False) for option in options)
