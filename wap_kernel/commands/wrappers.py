"""Programs that run other programs: what they would run, so that it can be judged as well. Pure.

`env`, `timeout`, `xargs` and their like are looked through; a shell's `-c` text is given back to be read; where neither
is possible (`env -S`, a sed script with commands of its own) the finding says so.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from wap_kernel.commands.words import Word

Words = tuple[Word, ...]


@dataclass(frozen=True)
class Wrapped:
    inner: Words = ()
    """The command that it runs."""
    text: str | None = None
    """The shell text that it runs."""
    problem: str | None = None
    """Why it cannot be looked through."""
    transparent: bool = True
    """It does nothing of its own, so what is said about the inner command suffices."""
    external: bool = True
    """The inner command is looked for on the PATH and is never a builtin."""


@dataclass(frozen=True)
class _Grammar:
    """How a wrapper's own arguments end."""

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
    """It appends arguments that nobody knows yet."""
    queries: str = ""
    """Letters of options with which it runs nothing: `command -v`."""


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
}
_SHELLS = frozenset("sh bash dash ash zsh ksh mksh rbash fish csh tcsh su".split())
_UNKNOWN = Word("$", known=False, splits=True)
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")


def is_wrapper(name: str) -> bool:
    """Whether a program of this name runs the one that its arguments name."""
    return name.rpartition("/")[2] in _GRAMMARS


def unwrap(name: str, words: Words) -> Wrapped | None:
    """What `words`, a command of the program `name`, runs besides itself. None: nothing that is known of."""
    if name in _GRAMMARS:
        return _look_through(_GRAMMARS[name], words[1:])
    if name in _SHELLS:
        return _shell_text(words)
    special = _SPECIAL.get(name)
    return special(words) if special else None


def _look_through(grammar: _Grammar, words: Words) -> Wrapped | None:
    at = 0
    while at < len(words):
        text = words[at].literal
        if text is None:
            return Wrapped(words[at:], problem="program named by an expansion")
        if text == "--":
            at += 1
            break
        if not text.startswith("-") or text == "-":
            break
        if text[1] in grammar.queries:
            return None
        step = _option(grammar, text)
        if step is None:
            return Wrapped(words[at + 1 :], problem=f"option {text} of a wrapper")
        at += step
    rest = words[at + grammar.operands :]
    if any(word.literal is None for word in words[: at + grammar.operands]):
        return Wrapped(rest, problem="program named by an expansion")
    problem = None
    while rest and grammar is _GRAMMARS["env"] and _ASSIGNMENT.match(rest[0].text):
        rest, problem = rest[1:], "leading assignment"
    if not rest:
        return Wrapped(problem=problem) if problem else None
    if rest[0].literal is None:
        problem = "program named by an expansion"
    if grammar is _GRAMMARS["env"] and "=" in rest[0].text:
        problem = "leading assignment"
    if grammar.more:
        rest = (*_replaced(words[:at], rest), _UNKNOWN)
        problem = problem or ("program named by an expansion" if rest[0].literal is None else None)
    return Wrapped(rest, problem=problem, external=grammar.external)


_REPLACES = re.compile(r"-[0rtpxo]*I(.*)", re.DOTALL)


def _replaced(own: Words, inner: Words) -> Words:
    """`xargs -I{} program {}`: what stands for the input is unknown."""
    for at, word in enumerate(own):
        if found := _REPLACES.fullmatch(word.text):
            mark = found.group(1) or own[at + 1].text
            inner = tuple(_UNKNOWN if mark in each.text else each for each in inner)
    return inner


def _option(grammar: _Grammar, text: str) -> int | None:
    """How many words the option takes. None: it is not known."""
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


def _shell_text(words: Words) -> Wrapped:
    for at, word in enumerate(words[1:-1], start=1):
        if re.fullmatch(r"-[A-Za-z]*c[A-Za-z]*|--command", word.text):
            following = next((each for each in words[at + 1 :] if not each.text.startswith("-")), None)
            return Wrapped(text=following.text if following else None, problem=f"{words[0].text} -c", transparent=False)
    return Wrapped(problem=f"script of {words[0].text}", transparent=False)


_FIND_ACTIONS = _words("-exec -execdir -ok -okdir")


def _find(words: Words) -> Wrapped | None:
    for at, word in enumerate(words):
        if word.text in _FIND_ACTIONS:
            rest = words[at + 1 :]
            end = next((n for n, each in enumerate(rest) if each.text in (";", "+")), len(rest))
            inner = tuple(_UNKNOWN if "{}" in each.text else each for each in rest[:end])
            more = any(each.text in _FIND_ACTIONS for each in rest[end:])
            unknown = not inner or inner[0].literal is None
            problem = "several actions of find" if more else "program named by an expansion" if unknown else None
            return Wrapped(inner, problem=problem, transparent=False)
    return None


def _git(words: Words) -> Wrapped | None:
    """A format that shows signatures has gpg check them."""
    checks = any("%G" in word.text or "%(signature" in word.text for word in words[1:])
    return Wrapped(problem="git with a signature check", transparent=False) if checks else None


def _tar(words: Words) -> Wrapped | None:
    """`tar -tf host:file` reads the archive through a remote shell."""
    remote = any(":" in word.text or word.literal is None for word in words[1:])
    return Wrapped(problem="archive on another host", transparent=False) if remote else None


@dataclass(frozen=True)
class _Language:
    """A small language whose harmless texts can be told by their look."""

    name: str
    harmless: Callable[[str], object]
    flags: str
    valued: str
    text_option: str = ""
    """The option that brings the text instead of the first operand."""
    long_flags: frozenset[str] = field(default_factory=frozenset)

    def __call__(self, words: Words) -> Wrapped | None:
        problem = Wrapped(problem=f"{self.name} program that may run commands or write files", transparent=False)
        texts: list[str] = []
        operands: list[str] = []
        rest = list(words[1:])
        while rest:
            word = rest.pop(0)
            if word.may_be_any_option:
                return problem
            text = word.text
            if text.startswith("--"):
                if text not in self.long_flags:
                    return problem
            elif text.startswith("-") and text != "-":
                value = text[2:]
                if text[1] in self.valued:
                    if not value and not rest:
                        return problem
                    given = Word(value) if value else rest.pop(0)
                    if text[1] == self.text_option:
                        texts.append(given.text if given.literal is not None else "$")
                elif set(text[1:]) - set(self.flags):
                    return problem
            elif not texts and not operands:
                operands.append(text if word.literal is not None else "$")
        checked = texts or operands[:1]
        return None if checked and all(self.harmless(text) for text in checked) else problem


_SED_ADDRESS = r"(?:\d+|\$|/[^/\\\n]*/)"
_SED_COMMAND = re.compile(
    rf"\s*(?P<address>(?:{_SED_ADDRESS}(?:,\+?{_SED_ADDRESS})?)?)\s*!?\s*"
    r"(?:[pdqDPNnGgHhx=]|s(?P<mark>[/|#,])(?P<pattern>(?:(?!(?P=mark))[^\\\n]|\\[^\n])*)(?P=mark)"
    r"(?:(?!(?P=mark))[^\\\n]|\\[^\n])*(?P=mark)[gpiI0-9]*)\s*"
)
_BRACKETS = re.compile(r"\[(?!\^?\])[^\]\[]+\]")
"""Closed for certain: `[]/]` and `[^]/]` begin with a bracket that they contain."""


def _is_harmless_sed(script: str) -> bool:
    """Only commands that print, delete and substitute: `e`, `w`, `r` and the flags `e` and `w` of `s` are not among
    them. What follows a separator must again be such a command. A bracket that is open where the pattern seems to end
    may hold the mark itself, so that the pattern ends elsewhere."""
    at = 0
    while found := _SED_COMMAND.match(script, at):
        if "[" in _BRACKETS.sub("", found["address"]) + _BRACKETS.sub("", found["pattern"] or ""):
            return False
        at = found.end()
        if at == len(script):
            return True
        if script[at] not in ";\n":
            return False
        at += 1
    return False


_AWK_ESCAPES = re.compile(r"system|getline|[>@|]")


def _is_harmless_awk(program: str) -> bool:
    """`||` is the one bar that connects nothing to a command."""
    return not _AWK_ESCAPES.search(program.replace("||", ""))


_SPECIAL: Mapping[str, Callable[[Words], Wrapped | None]] = {
    "find": _find,
    "git": _git,
    "tar": _tar,
    "sed": _Language("sed", _is_harmless_sed, "nEruzs", "e", "e", _words("--quiet --silent --regexp-extended --posix")),
    **dict.fromkeys(
        ("awk", "gawk", "mawk", "nawk"),
        _Language("awk", _is_harmless_awk, "", "Fv", "", _words("--posix --re-interval")),
    ),
}
