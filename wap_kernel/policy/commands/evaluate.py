"""Evaluate a command line: find the rules for every program that it would run, with its arguments. Pure.

Blocked beats ask beats allow. A line that cannot be parsed for certain is never allowed by a rule. All this saves
approvals and gives good answers early; the boundary is the sandbox.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from wap_kernel.model.policy import CommandRule, ShellPolicy, VerdictKind
from wap_kernel.policy.commands.git_paths import find_messages
from wap_kernel.policy.commands.mentions import CommandPattern, Mentions, list_restricted_commands
from wap_kernel.policy.commands.named_commands import ask_if_named, is_short, search_line
from wap_kernel.policy.commands.network_tools import limit_network, writes_content, writes_outside
from wap_kernel.policy.commands.path_arguments import may_read_names
from wap_kernel.policy.commands.program_lookup import BUILTINS
from wap_kernel.policy.commands.rule_match import (
    CommandFacts,
    Fit,
    Program,
    glob_of_name,
    has_harmless_leading,
    identify_program,
    match_blocked,
    match_rule,
    match_words,
    may_go_home,
    may_leave,
    skip_leading_options,
    split_words,
)
from wap_kernel.policy.commands.rule_verdicts import (
    adapt_to_layer,
    apply_rule,
    deny_blocked,
    deny_not_allowed,
    evaluate_unanalysable,
    raise_strictness,
    rule_name,
)
from wap_kernel.policy.shell.parser import Script, SimpleCommand, builtin_problem, parse_command
from wap_kernel.policy.shell.wrappers import unwrap
from wap_kernel.policy.verdict import Verdict

MAX_WRAPPING = 8
"""Depth of wrappers (`env env env ...`); no honest command is deeper."""
_UNVOUCHED = frozenset({"unknown", "unanalysable", "missing"})
"""The rules by which a command may run although nothing is known about it."""


@dataclass(frozen=True)
class CommandVerdict:
    """The verdict on one command of the script; `command` is without its wrappers."""

    command: SimpleCommand
    verdict: Verdict


def evaluate_script(script: Script, shell: ShellPolicy, facts: CommandFacts) -> Verdict:
    """Return the strictest verdict on the commands and on the script as a whole."""
    verdicts = evaluate_commands(script, shell, facts)
    verdict = max((each.verdict for each in verdicts), key=lambda each: each.kind.strictness, default=_NOTHING)
    asks = [each.verdict for each in verdicts if each.verdict.kind is VerdictKind.ASK]
    grantable = verdict.grantable and all(each.grantable for each in asks)
    return replace(verdict, network=opens_network(verdicts, shell, facts), grantable=grantable)


def opens_network(verdicts: Sequence[CommandVerdict], shell: ShellPolicy, facts: CommandFacts) -> bool:
    """Return whether a rule opens the network, and every other command of the script is harmless."""
    return any(each.verdict.network for each in verdicts) and all(
        not writes_outside(each.command, facts)
        if each.verdict.network or each.verdict.rule == "wrapper"
        else _is_harmless(each, verdicts, shell)
        for each in verdicts
    )


_NOTHING = Verdict(VerdictKind.ALLOW, "nothing to run", "The command runs nothing.")


def evaluate_commands(script: Script, shell: ShellPolicy, facts: CommandFacts) -> tuple[CommandVerdict, ...]:
    """Return the verdict on each command, wrappers included, and last on what cannot be analysed."""
    if facts.layered:
        shell = adapt_to_layer(shell)
    unclear = _Unclear(list(script.problems), script.whole)
    runs = [
        (run, _evaluate_run(run, shell, facts))
        for command in script.commands
        for run in _runs(_Run(command), unclear, facts, 0)
        if run.command.words
    ]
    found = [CommandVerdict(run.command, verdict) for run, verdict in _search_unknown(runs, script, shell, facts)]
    if unclear.problems:
        verdict = evaluate_unanalysable(unclear.problems, shell, facts)
        if verdict.kind is VerdictKind.ALLOW:
            verdict = search_line(verdict, script, shell, whole=unclear.whole, layered=facts.layered)
        found.append(CommandVerdict(SimpleCommand(()), verdict))
    return tuple(found)


@dataclass
class _Unclear:
    """The reasons why a line cannot be analysed, and whether all of it was parsed."""

    problems: list[str]
    whole: bool


@dataclass(frozen=True)
class _Run:
    """A program that is started, by the shell or by another program (`external`: then it is never a builtin)."""

    command: SimpleCommand
    external: bool = False
    transparent: bool = False

    def program(self, facts: CommandFacts) -> Program:
        first = self.command.words[0]
        if first.glob:
            return Program(None, frozenset(), glob_of_name(first.text.rpartition("/")[2]))
        if not first.known:
            return Program(None, frozenset())
        program = identify_program(first.text, facts, external=self.external)
        return replace(program, name=None) if first.home else program


def _runs(run: _Run, unclear: _Unclear, facts: CommandFacts, depth: int) -> Iterator[_Run]:
    """Yield `run` and the programs that it runs in turn."""
    if not run.command.words:
        return
    if depth > MAX_WRAPPING:
        unclear.problems.append("too many wrappers")
        unclear.whole = False
        yield run
        return
    first = run.command.words[0].literal or ""
    wrapped = unwrap(first.rpartition("/")[2], run.command.words)
    if wrapped is None:
        yield run
        return
    if wrapped.problem:
        unclear.problems.append(wrapped.problem)
    # An `env` in a folder of the workspace is no env; `time` is the shell's own only where the shell looks for it.
    vouched = (first == "time" and depth == 0) or run.program(facts).name is not None
    yield replace(run, transparent=wrapped.transparent and bool(wrapped.inner) and vouched)
    for command in map(SimpleCommand, filter(None, (wrapped.inner, *wrapped.others))):
        # `time eval x` and `command eval x` are eval.
        unclear.problems.extend(filter(None, (builtin_problem(command),)))
        yield from _runs(_Run(command, wrapped.external), unclear, facts, depth + 1)
    if wrapped.text is not None:
        inner = parse_command(wrapped.text)
        unclear.problems.extend(inner.problems)
        unclear.whole = unclear.whole and inner.whole
        for command in inner.commands:
            yield from _runs(_Run(command), unclear, facts, depth + 1)


def _evaluate_run(run: _Run, shell: ShellPolicy, facts: CommandFacts) -> Verdict:
    words, program = run.command.words, run.program(facts)
    blocked = max((match_blocked(entry, program, words) for entry in shell.blocked_commands), default=Fit.NO)
    if blocked is Fit.CERTAIN:
        return deny_blocked(_program_name(run))
    if shell.allowed_commands is not None and not run.transparent:
        patterns = [entry.split() for entry in shell.allowed_commands]
        if not any(pattern and match_words(pattern, program, words, certain=True) for pattern in patterns):
            return deny_not_allowed(
                _program_name(run, max((len(p) for p in patterns if p and p[0] in program.names), default=1)), shell
            )
    verdict = _evaluate_rules(run, program, shell, facts)
    if facts.layered and verdict.kind is VerdictKind.ASK and _is_absent(run, facts):
        verdict = Verdict(VerdictKind.ALLOW, "missing", f'Program "{_program_name(run)}" does not exist')
    if blocked is Fit.POSSIBLE:
        ask = Verdict(
            VerdictKind.ASK, "blocked", f'Command "{_program_name(run)}" may be one that is blocked', grantable=False
        )
        verdict = max(verdict, ask, key=lambda each: each.kind.strictness)
    if not facts.confined and may_read_names(program, words):
        verdict = replace(raise_strictness(shell.unconfined, verdict, "but takes names from a file"), grantable=False)
    if not facts.confined and (may_go_home(words) or any(may_leave(word, facts) for word in words[1:])):
        verdict = raise_strictness(shell.unconfined, verdict, "but may reach files outside the workspace")
    return verdict


def _search_unknown(
    runs: Sequence[tuple[_Run, Verdict]], script: Script, shell: ShellPolicy, facts: CommandFacts
) -> Iterator[tuple[_Run, Verdict]]:
    """Yield the runs, where an unknown program that names a restricted command asks.

    No list has all programs that run their arguments: `uv run sudo id`. All runs are searched together, since the
    caller's variables may be long.
    """
    unknown = {
        number: _searched_text(run, facts)
        for number, (run, verdict) in enumerate(runs)
        if verdict.rule == "unknown" and verdict.kind is VerdictKind.ALLOW and script.whole
    }
    wanted = list_restricted_commands(shell) if unknown else ()
    mentions = (
        Mentions(unknown.values(), script.variable_values).first(wanted)
        if wanted and is_short(script.variable_values)
        else None
    )
    for number, (run, verdict) in enumerate(runs):
        if number in unknown and wanted and not is_short(script.variable_values):
            verdict = replace(verdict, kind=VerdictKind.ASK, grantable=False)
        elif number in unknown and mentions is not None and (len(unknown) == 1 or _may_be_it(unknown[number], wanted)):
            verdict = ask_if_named(verdict, f'The command "{_program_name(run)}"', mentions)
        yield run, verdict


def _may_be_it(text: str, wanted: Sequence[CommandPattern]) -> bool:
    """Return whether this one of several commands names a restricted one, or has a variable that can."""
    return "$" in text or Mentions([text]).first(wanted) is not None


def _searched_text(run: _Run, facts: CommandFacts) -> str:
    """Return the words that may name a program. On a Layer the message of a commit is taken for what it is."""
    words = run.command.words
    messages = find_messages(words) if facts.layered and run.program(facts).name == "git" else frozenset()
    return " ".join(word.text for number, word in enumerate(words) if number not in messages)


def _evaluate_rules(run: _Run, program: Program, shell: ShellPolicy, facts: CommandFacts) -> Verdict:
    fitting = [
        (
            rule.verdict
            if fit is Fit.CERTAIN
            else min(rule.verdict, VerdictKind.ASK, key=lambda answer: answer.strictness),
            rule,
        )
        for rule in shell.rules
        if (fit := match_rule(rule, program, run.command.words, facts))
    ]
    if fitting:
        answer, rule = max(fitting, key=lambda each: (each[0].strictness, *_precision(each[1])))
        verdict = apply_rule(answer, rule, _program_name(run, len(rule.command.split())))
        if rule.verdict is not answer or not has_harmless_leading(program, run.command.words):
            # `git -c core.sshCommand=x fetch` is not the `git fetch` that somebody allowed for good.
            verdict = replace(verdict, grantable=False, network=False)
        verdict = limit_network(verdict, program, run.command.words, facts)
        if any(each.runs_code or each.writes for _, each in fitting) and not facts.confined:
            verdict = raise_strictness(shell.unconfined, verdict, "but can do anything, since no sandbox confines it")
        return verdict
    if run.transparent:
        return Verdict(VerdictKind.ALLOW, "wrapper", "What it runs is judged by itself.")
    if shell.allowed_commands is not None and shell.unknown is VerdictKind.ALLOW:
        return Verdict(VerdictKind.ALLOW, "allowedCommands", f'Command "{_program_name(run)}" is in allowed commands')
    reason = f'Command "{_form(run, program, shell)}" is not known to the policy'
    if _is_missing(run, program, shell):
        reason = f'Program "{_program_name(run)}" was not found among the installed programs'
    verdict = Verdict(shell.unknown, "unknown", reason, previewable=True)
    return verdict if facts.confined else raise_strictness(shell.unconfined, verdict, "and no sandbox confines it")


def _is_absent(run: _Run, facts: CommandFacts) -> bool:
    """Return whether the command can only fail, because there is no such program."""
    name = run.command.words[0].literal
    if name is None or "/" in name or (name in BUILTINS and not run.external):
        return False
    return facts.is_missing(name)


def _is_missing(run: _Run, program: Program, shell: ShellPolicy) -> bool:
    """Return whether a rule is about the command, and only the program is not installed."""
    words = run.command.words
    if program.name is not None or words[0].literal is None or "/" in words[0].text:
        return False
    return any(
        match_words(split_words(rule.command), program, words, certain=False) is Fit.CERTAIN for rule in shell.rules
    )


def _form(run: _Run, program: Program, shell: ShellPolicy) -> str:
    """Return the program, with its first word where rules know other forms of it."""
    has_forms = any(
        split_words(rule.command)[0] in program.names and len(split_words(rule.command)) > 1 for rule in shell.rules
    )
    name = _program_name(run)
    rest, _ = skip_leading_options(name, run.command.words[1:])
    following = (rest[0].literal or "") if has_forms and rest else ""
    return f"{name} {following}" if following.replace("-", "").isalnum() else name


def _precision(rule: CommandRule) -> tuple[int, int]:
    """Return the key by which the most specific of several rules is named."""
    return len(rule.command.split()), bool(rule.having) + bool(rule.targets)


def _is_harmless(judged: CommandVerdict, verdicts: Sequence[CommandVerdict], shell: ShellPolicy) -> bool:
    """Return whether the command may have the network that its neighbour needs: `pip install x | tail`."""
    if judged.verdict.kind is not VerdictKind.ALLOW or judged.verdict.rule in _UNVOUCHED:
        return False
    rules = [rule for rule in shell.rules if rule_name(rule) == judged.verdict.rule]
    others = (each.verdict.network or each.verdict.rule == "wrapper" for each in verdicts if each is not judged)
    return not any(rule.runs_code for rule in rules) and not writes_content(judged.command, rules, others)


def _program_name(run: _Run, words: int = 1) -> str:
    """Return the program's name as people know it, with some of its words."""
    first, *rest = (word.text for word in run.command.words[:words])
    return " ".join((first.rpartition("/")[2] or first, *rest))
