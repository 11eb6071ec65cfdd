"""Build the environment of every git process, so that nothing in a repository decides which program runs. Pure.

Git obeys a repository's own config, which names hooks, filters, editors, pagers, helpers. Settings in the environment
beat it. They are passed as `env NAME=VALUE ... git ...`, because a command's environment is closed to `GIT_*` for
callers, and because keys may hold `=`, which `-c` would cut at.

A repository names its filters and merge drivers itself, so those that it configures are looked up first and switched
off one by one (`disable_drivers`). The last line of defence is the sandbox: git starts another git that reads a
submodule's own config, for example.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

NO_FILE = "/dev/null"

VARIABLES: Mapping[str, str] = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": NO_FILE,
    "GIT_CONFIG_SYSTEM": NO_FILE,
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
    "GIT_GRAFT_FILE": NO_FILE,
    "GIT_LITERAL_PATHSPECS": "1",
    "GIT_MERGE_AUTOEDIT": "no",
    "HOME": NO_FILE,
    "XDG_CONFIG_HOME": NO_FILE,
    "LC_ALL": "C",
    "LANGUAGE": "",
}

SETTINGS: tuple[tuple[str, str], ...] = (
    # programs
    ("core.fsmonitor", "false"),
    ("core.hooksPath", NO_FILE),
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
    ("core.attributesFile", NO_FILE),
    ("core.excludesFile", NO_FILE),
    ("commit.template", NO_FILE),
    ("diff.orderFile", NO_FILE),
    ("mailmap.file", NO_FILE),
    ("blame.ignoreRevsFile", ""),
    # output that a program can parse
    ("color.ui", "false"),
    ("core.quotePath", "false"),
    ("core.commitGraph", "false"),  # a file of the workspace that could forge the order of commits
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
"""Options that beat the attributes and settings of a repository for certain."""

MAX_DRIVERS = 100
_TEXT_MERGE = "git merge-file --marker-size=%L %A %O %B"
"""The replacement for every merge driver: the merge that git does where there is no driver."""


def find_drivers(keys: Iterable[str]) -> frozenset[tuple[str, str]]:
    """Return the filters and merge drivers that config `keys` define, as (`filter` or `merge`, name)."""
    found: set[tuple[str, str]] = set()
    for key in keys:
        section, _, rest = key.partition(".")
        name, dot, variable = rest.rpartition(".")
        if section == "filter" and dot:
            found.add(("filter", name))
        elif section == "merge" and dot and variable == "driver":
            found.add(("merge", name))
    return frozenset(found)


def disable_drivers(drivers: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Return the settings that switch the filters and merge drivers off."""
    settings: list[tuple[str, str]] = []
    for section, name in sorted(drivers):
        if section == "merge":
            settings.append((f"merge.{name}.driver", _TEXT_MERGE))
        else:
            settings += [(f"filter.{name}.{part}", "") for part in ("clean", "smudge", "process")]
            settings.append((f"filter.{name}.required", "false"))
    return tuple(settings)


def build_variables(settings: Iterable[tuple[str, str]] = (), **more: str) -> dict[str, str]:
    """Return the environment for a git process; `settings` come on top of the fixed ones."""
    pairs = (*SETTINGS, *settings)
    numbered = {"GIT_CONFIG_COUNT": str(len(pairs))}
    for index, (key, value) in enumerate(pairs):
        numbered[f"GIT_CONFIG_KEY_{index}"] = key
        numbered[f"GIT_CONFIG_VALUE_{index}"] = value
    return {**VARIABLES, **numbered, **more}


def build_argv(program: Iterable[str], environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the argument vector of a command that sets the environment itself."""
    return ("env", *(f"{name}={value}" for name, value in environment.items()), *program)
