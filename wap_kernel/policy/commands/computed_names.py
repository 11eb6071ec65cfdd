"""Tell whether a command line may run files whose names cannot be read from the line. Pure.

`sh $(cat list)`, `xargs sh` and `python -c '...'` compute names. The answer errs to the safe side: a line is certain
only if the strict parser has no problem with it but some that do not hide names.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from wap_kernel.policy.shell.expansion import Variables, expand_word, find_assignments
from wap_kernel.policy.shell.loose_lexer import LooseCommand, LooseWord, restore_quoted, split_loosely
from wap_kernel.policy.shell.parser import parse_command
from wap_kernel.policy.shell.strict_lexer import RESERVED
from wap_kernel.policy.shell.syntax import Word
from wap_kernel.policy.shell.wrappers import unwrap

MAX_NESTING = 4
_HARMLESS_PROBLEM = re.compile(
    r"""
    leading\ assignment | program\ named\ by\ an\ expansion | compound\ command.* | subshell(\ or\ function)? | function
    | background | group(\ or\ brace\ expansion)? | brace\ expansion | negation | \$'\.\.\.' | \$"\.\.\."
    | redirection\ (to\ an\ expansion|after\ cd|without\ a\ command|[<>&|-]+) | heredoc.*
    | (if|for|while|case|c\ style\ for)\ statement | do\ group | (else|elif)\ clause | case\ item | last\ case\ item
    | variable\ declaration | unset | changed\ environment | split\ string\ of\ env | several\ actions\ of\ find
    | eval | source | \. | exec | export | declare | typeset | local | readonly | set | trap | ulimit | umask | builtin
    | test\ of\ a\ variable | \S+\ -c | script\ of\ \S+ | git\ with\ a\ signature\ check | archive\ on\ another\ host
    | date\ that\ may\ set\ the\ clock
    """,
    re.VERBOSE,
)
"""Problems of a script that leave its names readable: every word of it is searched, whatever the grammar."""
_PRINTERS = frozenset("echo printf exit return test [ true false :".split())
_WITHOUT_PROGRAM = frozenset("for case select function".split())
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=.*", re.DOTALL)
_RUN_NOTHING = _PRINTERS | frozenset(
    """
    cat cd cp cut date df dirname basename diff du egrep fgrep file grep head hostname id less ln ls mkdir more mv nl
    nproc od popd pushd pwd readlink realpath rm rmdir rev seq sha1sum sha256sum sha512sum md5sum sleep stat tac tail
    tee touch tr tree type uname uniq unset wc which whoami export set
    """.split()
)
"""Programs that run no other program."""
_COMPUTING = frozenset("xargs parallel read mapfile readarray getopts select let entr".split())
_SHELL = re.compile(r"(?:r?ba|da|a|z|k|mk|c|tc|fi)?sh")
_PYTHON = re.compile(r"(?:python|pypy|ipython)[\d.]*")
_INTERPRETER = re.compile(
    r"node|nodejs|deno|bun|perl[\d.]*|ruby[\d.]*|Rscript|R|julia|lua[\d.]*|php[\d.]*|tclsh|guile|osascript"
)
_INLINE_PYTHON = re.compile(r"-[A-Za-z]*c.*", re.DOTALL)
_INLINE_CODE = re.compile(r"-[A-Za-z0-9]*[cEerp].*|--(?:eval|exec|print|expr|run|command).*|eval|repl", re.DOTALL)
_SHELL_TEXT = re.compile(r"-[A-Za-z]*c[A-Za-z]*|--command")
_SUBSTITUTION = re.compile(r"[$<>]\(|`")
_VALUED = re.compile(r"[-+][A-Za-z]*[oOWX]|--rcfile|--init-file")
_STREAM = re.compile(r"-|/dev/.*|/proc/.*/fd/.*")
_FIND_ACTION = re.compile(r"-(?:exec|ok)(?:dir)?|-files0-from|--exec(?:-batch)?|-[xX]")


@dataclass(frozen=True)
class _Line:
    """The circumstances of a command."""

    variables: Variables
    has_pipe: bool
    """True if the line has a pipe."""
    reads_pipe: bool = False
    """True if the command may read what another one writes."""
    depth: int = 0


def may_compute_names(text: str, variables: Variables) -> bool:
    """Return whether a program of the line may run a file that no word of it names."""
    return _runs_programs(text, 0) and _is_uncertain(text, _Line(variables, has_pipe=False))


def _runs_programs(text: str, depth: int) -> bool:
    for command in split_loosely(text):
        words = find_program(command)
        if words and words[0].text.rpartition("/")[2] not in _RUN_NOTHING:
            return True
        # A substitution in quotes is a part of its word.
        nested = [word.text for word in command.words if "$(" in word.live or "`" in word.live]
        if depth < MAX_NESTING and any(_runs_programs(each, depth + 1) for each in nested):
            return True
    return False


def find_program(command: LooseCommand) -> list[LooseWord]:
    """Return the program of a command and its arguments, without grammar, assignments and redirections."""
    words = [word for word in command.words if not word.redirect]
    while words and (words[0].text in RESERVED or _ASSIGNMENT.fullmatch(words[0].live)):
        if words[0].text in _WITHOUT_PROGRAM:
            return []
        del words[0]
    return words


def _is_uncertain(text: str, outer: _Line) -> bool:
    script = parse_command(text)
    if outer.depth > MAX_NESTING or not script.whole or not all(map(_HARMLESS_PROBLEM.fullmatch, script.problems)):
        return True
    commands = split_loosely(text)
    variables = find_assignments(commands, outer.variables)
    if variables.get("IFS") != outer.variables.get("IFS") or _runs_what_it_writes(commands):
        return True
    if any(
        map(_SUBSTITUTION.search, (command.before for command in commands))
    ):  # a parser may see none after an escaped space
        return True
    has_pipe = any("|" in command.before for command in commands)
    is_grouped = any("(" in each.before or each.words[0].text in RESERVED for each in commands)
    return any(
        _is_command_uncertain(
            command,
            _Line(
                variables,
                has_pipe or outer.has_pipe,
                outer.reads_pipe or "|" in command.before or (has_pipe and is_grouped),
                outer.depth,
            ),
        )
        for command in commands
    )


def _runs_what_it_writes(commands: Sequence[LooseCommand]) -> bool:
    written: set[str] = set()
    others: set[str] = set()
    for command in commands:
        is_copy = command.words[0].text in ("tee", "dd")
        for word in command.words:
            (written if is_copy or ">" in word.redirect else others).add(word.text.removeprefix("./"))
    return not written.isdisjoint(others)


def _is_command_uncertain(command: LooseCommand, line: _Line) -> bool:
    words = find_program(command)
    if words and words[0].text in _PRINTERS and not line.has_pipe:
        return False
    if not all(expand_word(word.live, line.variables).is_complete for word in command.words):
        return True
    if not words:
        return False
    redirects = [word for word in command.words if word.redirect]
    arguments = [_as_word(expand_word(word.live, line.variables).texts[0]) for word in words[1:]]
    return any(
        _is_program_uncertain((_as_word(program), *arguments), redirects, line)
        for program in expand_word(words[0].live, line.variables).texts
    )


def _as_word(live: str) -> Word:
    return Word(restore_quoted(live))


def _is_program_uncertain(words: Sequence[Word], redirects: Sequence[LooseWord], line: _Line) -> bool:
    name = words[0].text.rpartition("/")[2]
    if line.depth > MAX_NESTING or name in _COMPUTING or _gets_code(name, words[1:], redirects, line):
        return True
    wrapped = unwrap(name, tuple(words))
    if wrapped is not None and wrapped.problem and not _HARMLESS_PROBLEM.fullmatch(wrapped.problem):
        return True
    texts = [word.text for word in redirects if word.redirect == "<<<"] if _SHELL.fullmatch(name) else []
    if wrapped is not None and wrapped.text is not None:
        texts.append(wrapped.text)
    deeper = replace(line, depth=line.depth + 1)
    if any(_is_uncertain(text, deeper) for text in texts):
        return True
    inner = () if wrapped is None else (wrapped.inner, *wrapped.others)
    return any(_is_program_uncertain(each, redirects, deeper) for each in inner if each)


def _gets_code(name: str, arguments: Sequence[Word], redirects: Sequence[LooseWord], line: _Line) -> bool:
    """Return whether the program runs code that is no file: from an argument, from a pipe, or in what it finds."""
    texts = [word.text for word in arguments]
    if name in ("find", "fd", "fdfind"):
        has_start = name == "find" and bool(texts) and texts[0][:1] not in ("-", "(", "!", "")
        acts = any(map(_FIND_ACTION.fullmatch, texts))
        return acts and (not has_start or "-files0-from" in texts)
    if name in ("source", "."):
        return line.reads_pipe and any(map(_STREAM.fullmatch, texts))
    is_shell, is_python = _SHELL.fullmatch(name), _PYTHON.fullmatch(name)
    if not (is_shell or is_python or _INTERPRETER.fullmatch(name)):
        return False
    options = iter(texts)
    for text in options:
        if is_shell and _SHELL_TEXT.fullmatch(text):
            return False  # the text is judged by itself
        if is_python and text.startswith("-m"):
            return False
        if not is_shell and (_INLINE_PYTHON if is_python else _INLINE_CODE).fullmatch(text):
            return True
        if _STREAM.fullmatch(text) or (is_shell and re.fullmatch(r"-[A-Za-z]*s[A-Za-z]*", text)):
            break
        if _VALUED.fullmatch(text):
            next(options, None)
        elif not text.startswith(("-", "+")):
            return False
    has_inline_input = any(word.redirect.startswith("<<") for word in redirects)
    return line.reads_pipe or (has_inline_input and not is_shell)
