"""What every git process gets from us, so that nothing in a repository decides which program runs. Pure.

A repository's own config is obeyed by git: it names hooks, filters, editors, pagers, helpers. Settings handed over in
the environment beat it. They go as `env NAME=VALUE ... git ...`, because a command's environment is closed to `GIT_*`
for callers, and because keys may hold `=`, which `-c` would cut at.

Filters and merge drivers have names of their own choosing, so those that a repository configures are looked up first
and switched off one by one (`without_drivers`). The last line of defence is the sandbox: a submodule's own config, for
one, is read by a git that git starts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

NOWHERE = "/dev/null"

VARIABLES: Mapping[str, str] = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": NOWHERE,
    "GIT_CONFIG_SYSTEM": NOWHERE,
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "false",
    "SSH_ASKPASS": "false",
    "GIT_EDITOR": "false",
    "GIT_SEQUENCE_EDITOR": "false",
    "GIT_PAGER": "cat",
    "GIT_SSH_COMMAND": "false",
    "GIT_PROXY_COMMAND": "false",
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_GRAFT_FILE": NOWHERE,
    "GIT_LITERAL_PATHSPECS": "1",
    "GIT_MERGE_AUTOEDIT": "no",
    "HOME": NOWHERE,
    "XDG_CONFIG_HOME": NOWHERE,
    "LC_ALL": "C",
    "LANGUAGE": "",
}

SETTINGS: tuple[tuple[str, str], ...] = (
    # programs
    ("core.fsmonitor", "false"),
    ("core.hooksPath", NOWHERE),
    ("core.pager", "cat"),
    ("core.editor", "false"),
    ("sequence.editor", "false"),
    ("core.askPass", "false"),
    ("core.sshCommand", "false"),
    ("core.gitProxy", "false"),
    ("core.alternateRefsCommand", "true"),
    ("credential.helper", ""),
    ("gpg.program", "false"),
    ("gpg.openpgp.program", "false"),
    ("gpg.x509.program", "false"),
    ("gpg.ssh.program", "false"),
    ("gpg.ssh.defaultKeyCommand", "false"),
    ("commit.gpgSign", "false"),
    ("tag.gpgSign", "false"),
    ("push.gpgSign", "false"),
    ("log.showSignature", "false"),
    ("merge.verifySignatures", "false"),
    ("interactive.diffFilter", "cat"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("protocol.allow", "never"),
    ("safe.bareRepository", "explicit"),
    # other repositories
    ("submodule.recurse", "false"),
    ("fetch.recurseSubmodules", "false"),
    ("diff.ignoreSubmodules", "dirty"),
    ("diff.submodule", "short"),
    ("status.submoduleSummary", "false"),
    # files elsewhere
    ("core.attributesFile", NOWHERE),
    ("core.excludesFile", NOWHERE),
    ("commit.template", NOWHERE),
    ("diff.orderFile", NOWHERE),
    ("mailmap.file", NOWHERE),
    ("blame.ignoreRevsFile", ""),
    # answers that can be read by a program
    ("color.ui", "false"),
    ("core.quotePath", "false"),
    ("core.commitGraph", "false"),  # a file of the workspace, that says which commit follows which
    ("core.commentChar", "#"),
    ("advice.graftFileDeprecated", "false"),
    ("advice.addEmbeddedRepo", "false"),
    ("advice.detachedHead", "false"),
    ("diff.noprefix", "false"),
    ("diff.mnemonicPrefix", "false"),
    ("diff.suppressBlankEmpty", "false"),
    ("diff.relative", "false"),
    ("i18n.commitEncoding", "UTF-8"),
    ("i18n.logOutputEncoding", "UTF-8"),
    ("log.mailmap", "false"),
    ("log.follow", "false"),
    ("merge.conflictStyle", "merge"),
    ("rerere.enabled", "false"),
    ("merge.autoStash", "false"),
    # `.git/config` is read-only in the sandbox
    ("branch.autoSetupMerge", "false"),
    ("branch.autoSetupRebase", "never"),
)

DIFF_OPTIONS = (
    *("--no-ext-diff", "--no-textconv", "--no-color", "--no-relative", "--ignore-submodules=dirty"),
    *("--submodule=short", "--src-prefix=a/", "--dst-prefix=b/", "--find-renames", "--unified=3"),
    *("--inter-hunk-context=0", "--diff-algorithm=default", "--ws-error-highlight=none"),
)
"""Options, where git has them, beat the attributes and settings of a repository for certain."""

MAX_DRIVERS = 100
_TEXT_MERGE = "git merge-file --marker-size=%L %A %O %B"
"""What a merge driver is replaced by: the merge that git does itself where there is none."""


def drivers(keys: Iterable[str]) -> frozenset[tuple[str, str]]:
    """The filters and merge drivers that config `keys` define, as (`filter` or `merge`, name)."""
    found: set[tuple[str, str]] = set()
    for key in keys:
        section, _, rest = key.partition(".")
        name, dot, variable = rest.rpartition(".")
        if section == "filter" and dot:
            found.add(("filter", name))
        elif section == "merge" and dot and variable == "driver":
            found.add(("merge", name))
    return frozenset(found)


def without_drivers(found: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """The settings that switch them off."""
    settings: list[tuple[str, str]] = []
    for section, name in sorted(found):
        if section == "merge":
            settings.append((f"merge.{name}.driver", _TEXT_MERGE))
        else:
            settings += [(f"filter.{name}.{part}", "") for part in ("clean", "smudge", "process")]
            settings.append((f"filter.{name}.required", "false"))
    return tuple(settings)


def variables(settings: Iterable[tuple[str, str]] = (), **more: str) -> dict[str, str]:
    """The environment that makes git obey us: `settings` come on top of the fixed ones."""
    pairs = (*SETTINGS, *settings)
    numbered = {"GIT_CONFIG_COUNT": str(len(pairs))}
    for index, (key, value) in enumerate(pairs):
        numbered[f"GIT_CONFIG_KEY_{index}"] = key
        numbered[f"GIT_CONFIG_VALUE_{index}"] = value
    return {**VARIABLES, **numbered, **more}


def argv(program: Iterable[str], environment: Mapping[str, str]) -> tuple[str, ...]:
    """A command that sets the environment itself."""
    return ("env", *(f"{name}={value}" for name, value in environment.items()), *program)
