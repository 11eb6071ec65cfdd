"""Evaluate `>` and `<` in a command line: a path inside the workspace is checked like any file. Pure.

A target that is not literal is a problem of the script and judged with it. This gives good answers early; in a sandbox
a path that may not be written cannot be written, whatever leads to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from wap_kernel.model.paths import Access, PathAccess, relative_to
from wap_kernel.model.policy import ShellPolicy
from wap_kernel.policy.commands.rule_match import CommandFacts
from wap_kernel.policy.commands.rule_verdicts import adapt_to_layer
from wap_kernel.policy.effective import EffectivePolicy
from wap_kernel.policy.shell.parser import Script
from wap_kernel.policy.shell.syntax import Redirect, Word
from wap_kernel.policy.verdict import Verdict

HARMLESS = frozenset("/dev/null /dev/zero /dev/stdin /dev/stdout /dev/stderr".split())
MOVES = frozenset("cd pushd popd".split())


def evaluate_redirections(
    script: Script,
    cwd: str,
    effective: EffectivePolicy,
    facts: CommandFacts,
    refuse: Callable[[PathAccess], Verdict | None],
) -> Iterator[Verdict]:
    """Yield the verdicts on all redirections. `refuse` returns the verdict that refuses a path inside, or None."""
    moves = any(command.words and command.words[0].text in MOVES for command in script.commands)
    for redirect in (redirect for command in script.commands for redirect in command.redirects):
        text = redirect.target.text
        if text in HARMLESS or (moves and not text.startswith(("/", "~"))):
            continue  # a relative path after `cd`: the script has a problem, and the path is not the one that it seems
        access = Access.READ if redirect.mode == "read" else Access.WRITE
        path = resolve_inside(redirect.target, redirect.target.text, cwd, facts)
        if path is not None and facts.layered and access is Access.WRITE:
            continue  # policy judges the effect
        if path is not None:
            refusal = refuse(PathAccess(path, access))
            if refusal is not None:
                yield refusal
        elif not (facts.confined and access is Access.READ):
            for policy in effective.layers:
                yield _outside(redirect, adapt_to_layer(policy.shell) if facts.layered else policy.shell, facts)


def resolve_inside(word: Word, text: str, cwd: str, facts: CommandFacts) -> str | None:
    """Return the path below the root that `text`, the word or a part of it, means, or None if it is outside.

    Links are not followed.
    """
    if word.home:
        if text != "~" and not text.startswith("~/"):
            return None
        text = facts.home + text[1:]
    names: list[str] = []
    for name in (text if text.startswith("/") else f"{facts.root}/{cwd}/{text}").split("/"):
        if name == "..":
            del names[-1:]
        elif name not in ("", "."):
            names.append(name)
    found = relative_to("/" + "/".join(names), facts.root)
    return None if found is None else found or "."


def _outside(redirect: Redirect, shell: ShellPolicy, facts: CommandFacts) -> Verdict:
    verdict = Verdict(
        shell.unanalysable,
        "redirection",
        f'Redirection to "{redirect.target.text}" leaves the workspace',
        "Redirect to a path in the workspace.",
        grantable=False,
        previewable=True,
    )
    if facts.confined or verdict.kind.strictness >= shell.unconfined.strictness:
        return verdict
    return replace(verdict, kind=shell.unconfined, rule="unconfined")
