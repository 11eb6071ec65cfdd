"""Unwrap programs that run other programs, so that the inner command can be judged as well. Pure.

`env`, `timeout`, `xargs` and their like are unwrapped; the text of a shell's `-c` is returned to be parsed; where
neither is possible (`env -S`, a sed script with commands of its own) the result says so.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise

from wap_kernel.policy.shell.sed_awk import LANGUAGES
from wap_kernel.policy.shell.syntax import Word

Words = tuple[Word, ...]


@dataclass(frozen=True)
class Unwrapped:
    """The commands that a wrapper runs."""

    inner: Words = ()
    """The command that the wrapper runs."""
    others: tuple[Words, ...] = ()
    """Further commands that the wrapper runs."""
    text: str | None = None
    """The shell text that the wrapper runs."""
    problem: str | None = None
    """The reason why the wrapper cannot be analysed."""
    transparent: bool = True
    """True where the wrapper does nothing of its own, so that the verdict on the inner command suffices."""
    external: bool = True
    """True where the inner command is found on the PATH and is never a builtin."""


@dataclass(frozen=True)
class _Grammar:
    """The arguments of a wrapper, after which the inner command begins."""

    flags: str = ""
    """Letters of options without a value."""
    valued: str = ""
    """Letters of options with a value, in the same word or in the next."""
    long_flags: frozenset[str] = frozenset()
    long_valued: frozenset[str] = frozenset()
    operands: int = 0
    """Words before the inner command: the duration of `timeout`."""
    external: bool = True
    more: bool = False
    """True where the wrapper appends arguments that are not known yet."""
    queries: str = ""
    """Letters of options with which the wrapper runs nothing: `command -v`."""
    acts: bool = False
    """True where the wrapper does something of its own too, which is judged by itself."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_GRAMMARS: Mapping[str, _Grammar] = {
    "env": _Grammar("i0v", "uC", _words("--ignore-environment --null --debug"), _words("--unset --chdir")),
    "command": _Grammar("p", external=False, queries="vV"),
    "builtin": _Grammar(external=False),
    "exec": _Grammar("cl", "a"),
    "nohup": _Grammar(),
    "nice": _Grammar("0123456789", "n", long_valued=_words("--adjustment")),
    "ionice": _Grammar("t", "cn", _words("--ignore"), _words("--class --classdata")),
    "timeout": _Grammar(
        "v", "ks", _words("--foreground --preserve-status --verbose"), _words("--kill-after --signal"), operands=1
    ),
    "time": _Grammar("pv", external=False),
    "stdbuf": _Grammar("", "ioe", long_valued=_words("--input --output --error")),
    "setsid": _Grammar("cfw", long_flags=_words("--ctty --fork --wait")),
    "sudo": _Grammar("AbEHiknPSsv", "CDghpRrTtUu"),
    "doas": _Grammar("Lns", "Cu"),
    "busybox": _Grammar(),
    "xargs": _Grammar(
        "0rtpxo",
        "adEILnPs",
        _words("--null --no-run-if-empty --verbose --exit --open-tty"),
        _words("--arg-file --delimiter --max-args --max-procs --max-chars"),
        more=True,
    ),
    "chrt": _Grammar("abdfimorRv", "TPD", operands=1),
    "taskset": _Grammar("ac", long_flags=_words("--all-tasks --cpu-list"), operands=1),
    "setarch": _Grammar("3BFILRSTXZv", operands=1, acts=True),
    "flock": _Grammar("sxeounF", "wE", operands=1, acts=True),
    "watch": _Grammar("bcdegptx", "nq", acts=True),
    "strace": _Grammar("cCdfFhikqrtTvVwxyYzZ", "abeEIoOpPsSuUX", acts=True),
    "unshare": _Grammar("cfimnprTuU", "RSGw", acts=True),
    "parallel": _Grammar("kqtv0X", "aCIjLnNsS", more=True, acts=True),
    "chroot": _Grammar(operands=1, acts=True),
    **dict.fromkeys(
        _words("unbuffer xvfb-run dbus-run-session ssh-agent systemd-run entr toybox prlimit setpriv fakeroot"),
        _Grammar(acts=True),
    ),
}
_SHELLS = frozenset("sh bash dash ash zsh ksh mksh rbash fish csh tcsh su".split())
_UNKNOWN = Word("$", known=False, splits=True)
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")
_SPLITS = re.compile(r"(?:-[0v]*S|--s[a-z-]*=?)(.*)", re.DOTALL)
_CHANGES_ENVIRONMENT = re.compile(r"-[0v]*[iu].*|--ignore.*|--unset.*|-", re.DOTALL)
"""Options of `env` that take away variables, git's among them that keep a repository from running programs."""


def is_wrapper(name: str) -> bool:
    """Return whether a program of this name runs the program that its arguments name."""
    return name.rpartition("/")[2] in _GRAMMARS


def unwrap(name: str, words: Words) -> Unwrapped | None:
    """Return the commands that `words`, a command of the program `name`, runs besides itself, or None."""
    if name in _GRAMMARS:
        return _unwrap_grammar(_GRAMMARS[name], words[1:])
    if name in _SHELLS:
        return _shell_text(words)
    special = _SPECIAL.get(name)
    return special(words) if special else None


def _unwrap_grammar(grammar: _Grammar, words: Words) -> Unwrapped | None:
    at = 0
    while at < len(words):
        text = words[at].literal
        if text is None:
            return Unwrapped(words[at:], problem="program named by an expansion")
        if text == "--":
            at += 1
            break
        if not text.startswith("-") or text == "-":
            break
        if text[1] in grammar.queries:
            return None
        if grammar is _GRAMMARS["env"] and (found := _SPLITS.fullmatch(text)):
            line = " ".join(filter(None, (found.group(1), *(word.text for word in words[at + 1 :]))))
            return Unwrapped(text=line, problem="split string of env")
        step = _option(grammar, text)
        if step is None:
            return Unwrapped(words[at + 1 :], problem=f"option {text} of a wrapper")
        at += step
    rest = words[at + grammar.operands :]
    if any(word.literal is None for word in words[: at + grammar.operands]):
        return Unwrapped(rest, problem="program named by an expansion")
    problem = None
    if grammar is _GRAMMARS["env"] and any(_CHANGES_ENVIRONMENT.fullmatch(word.text) for word in words[: at + 1]):
        problem = "changed environment"
    while rest and grammar is _GRAMMARS["env"] and (rest[0].text == "-" or _ASSIGNMENT.match(rest[0].text)):
        rest, problem = rest[1:], problem or "leading assignment"
    if not rest:
        return Unwrapped(problem=problem) if problem else None
    if rest[0].literal is None:
        problem = "program named by an expansion"
    if grammar is _GRAMMARS["env"] and "=" in rest[0].text:
        problem = "leading assignment"
    if grammar.more:
        rest = (*_mark_replaced(words[:at], rest), _UNKNOWN)
        problem = problem or ("program named by an expansion" if rest[0].literal is None else None)
    return Unwrapped(rest, problem=problem, external=grammar.external, transparent=not grammar.acts)


_REPLACES = re.compile(r"-[0rtpxo]*I(.*)", re.DOTALL)


def _mark_replaced(own: Words, inner: Words) -> Words:
    """Return the inner words, where those for the input are unknown: `xargs -I{} program {}`."""
    for at, word in enumerate(own):
        if found := _REPLACES.fullmatch(word.text):
            mark = found.group(1) or own[at + 1].text
            inner = tuple(_UNKNOWN if mark in each.text else each for each in inner)
    return inner


def _option(grammar: _Grammar, text: str) -> int | None:
    """Return the number of words that the option takes, or None if the option is unknown."""
    if text.startswith("--"):
        name, equals, _ = text.partition("=")
        if name in grammar.long_flags:
            return None if equals else 1
        return (1 if equals else 2) if name in grammar.long_valued else None
    for position, letter in enumerate(text[1:], start=2):
        if letter in grammar.valued:
            return 1 if text[position:] else 2
        if letter not in grammar.flags:
            return None
    return 1


def _shell_text(words: Words) -> Unwrapped:
    for at, word in enumerate(words[1:-1], start=1):
        if re.fullmatch(r"-[A-Za-z]*c[A-Za-z]*|--command", word.text):
            text = _after_options(words[at:])
            return Unwrapped(text=text, problem=f"{words[0].text} -c", transparent=False)
    return Unwrapped(problem=f"script of {words[0].text}", transparent=False)


def _after_options(words: Words) -> str | None:
    """Return the first word that is neither an option (`-e`, `+x`) nor the value of `-o` or `-O`."""
    values = 0
    for word in words:
        if word.text[:1] in ("-", "+") and not values:
            values = 0 if word.text.startswith("--") else len(re.findall("[oO]", word.text))
        elif values:
            values -= 1
        else:
            return word.text
    return None


def _eval(words: Words) -> Unwrapped | None:
    return Unwrapped(text=" ".join(word.text for word in words[1:]), transparent=False)


def _trap(words: Words) -> Unwrapped | None:
    text = next((word.text for word in words[1:] if not word.text.startswith("-")), None)
    return Unwrapped(text=text, transparent=False)


_FIND_ACTIONS = _words("-exec -execdir -ok -okdir")


def _find(words: Words) -> Unwrapped | None:
    inner: list[Words] = []
    for at, word in enumerate(words):
        if word.text in _FIND_ACTIONS:
            rest = words[at + 1 :]
            end = next((n for n, each in enumerate(rest) if each.text in (";", "+")), len(rest))
            inner.append(tuple(_UNKNOWN if "{}" in each.text else each for each in rest[:end]))
    if not inner:
        return None
    unknown = any(not each or each[0].literal is None for each in inner)
    problem = "several actions of find" if inner[1:] else "program named by an expansion" if unknown else None
    return Unwrapped(inner[0], others=tuple(inner[1:]), problem=problem, transparent=False)


def _git(words: Words) -> Unwrapped | None:
    """Report a format that shows signatures: gpg checks them."""
    checks = any("%G" in word.text or "%(signature" in word.text for word in words[1:])
    return Unwrapped(problem="git with a signature check", transparent=False) if checks else None


def _tar(words: Words) -> Unwrapped | None:
    """Report `tar -tf host:file`, which reads the archive through a remote shell."""
    remote = any(":" in word.text or word.literal is None for word in words[1:])
    return Unwrapped(problem="archive on another host", transparent=False) if remote else None


_DATE_VALUED = re.compile(r"-[A-HJ-Za-z]*[dfr]|--(?:date|file|reference)")


def _date(words: Words) -> Unwrapped | None:
    """Report `date 010100002020`, which sets the clock."""
    for before, word in pairwise(words):
        if word.text[:1] not in ("+", "-") and not _DATE_VALUED.fullmatch(before.text):
            return Unwrapped(problem="date that may set the clock", transparent=False)
    return None


def _sed_or_awk(words: Words) -> Unwrapped | None:
    """Report a sed script or an awk program that may run commands itself."""
    name = words[0].text.rpartition("/")[2]
    if LANGUAGES[name].is_harmless(words[1:]):
        return None
    return Unwrapped(problem=f"{name} program that may run commands or write files", transparent=False)


_SPECIAL: Mapping[str, Callable[[Words], Unwrapped | None]] = {
    "eval": _eval,
    "trap": _trap,
    "find": _find,
    "git": _git,
    "tar": _tar,
    "date": _date,
    **dict.fromkeys(LANGUAGES, _sed_or_awk),
}
