"""Tell whether a command takes file names from a file: `find -files0-from list` leads anywhere. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from wap_kernel.policy.commands.rule_match import Program, Words, match_option

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
