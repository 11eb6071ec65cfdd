"""Things that somebody with a hand in the workspace plants there, each meant to make git run a program."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from tests.support.git_repository import Workspace, plain

Plant = Callable[[Workspace, str], None]
"""Gets the workspace and the program that is to run."""
HOOKS = """
    applypatch-msg commit-msg fsmonitor-watchman p4-changelist post-applypatch post-checkout post-commit post-
    index-change post-merge post-rewrite post-update pre-applypatch pre-auto-gc pre-commit pre-merge-commit
    pre-push pre-rebase pre-receive prepare-commit-msg proc-receive push-to-checkout reference-transaction
    sendemail-validate update
""".split()


def make_program(workspace: Workspace, outside: Path, name: str = "evil.sh") -> str:
    """Leaves a mark where it can: outside only if it runs there. Otherwise it behaves as a filter."""
    outside.mkdir()
    text = f"#!/bin/sh\ntouch {outside}/ran 2>/dev/null\ntouch {workspace.folder}/.git/ran-inside\ncat\n"
    program = workspace.write(name, text)
    program.chmod(0o755)
    for name in ("git-merge-evil", "git-remote-evil"):
        (workspace.write(name, text)).chmod(0o755)
    workspace.write(".git/info/exclude", "*.sh\ngit-*\n")
    return str(program)


class Settings:
    """`key` gets the program; `key=value` gets the value, with PROGRAM in both replaced."""

    def __init__(self, *pairs: str) -> None:
        self._pairs = pairs

    def __call__(self, workspace: Workspace, program: str) -> None:
        for pair in self._pairs:
            key, equals, value = pair.partition("=")
            named = key.replace("PROGRAM", program)
            workspace.plain("config", "--add", named, value.replace("PROGRAM", program) if equals else program)


def attributes(line: str, *pairs: str) -> Plant:
    def plant(workspace: Workspace, program: str) -> None:
        _add_attributes(workspace, line)
        Settings(*pairs)(workspace, program)

    return plant


def _add_attributes(workspace: Workspace, line: str) -> None:
    with (workspace.folder / ".gitattributes").open("a") as file:
        file.write(f"{line}\n")


def _hooks(folder: str) -> Plant:
    def plant(workspace: Workspace, program: str) -> None:
        (workspace.folder / folder).mkdir(exist_ok=True)
        for name in HOOKS:
            path = workspace.folder / folder / name
            path.write_text(Path(program).read_text())
            path.chmod(0o755)
        if folder != ".git/hooks":
            workspace.plain("config", "core.hooksPath", str(workspace.folder / folder))

    return plant


def _included(workspace: Workspace, program: str) -> None:
    workspace.write(
        "more.config", f'[core]\n\tfsmonitor = {program}\n\tpager = {program}\n[filter "x"]\n\tclean = {program}\n'
    )
    _add_attributes(workspace, "* filter=x")
    workspace.plain("config", "include.path", str(workspace.folder / "more.config"))


def _conditionally_included(workspace: Workspace, program: str) -> None:
    workspace.write(".git/more.config", f"[core]\n\tfsmonitor = {program}\n")
    Settings("includeIf.gitdir:/.path=more.config", "includeIf.onbranch:main.path=more.config")(workspace, program)


def _worktree_config(workspace: Workspace, program: str) -> None:
    workspace.plain("config", "extensions.worktreeConfig", "true")
    workspace.write(".git/config.worktree", f"[core]\n\tfsmonitor = {program}\n\teditor = {program}\n")


def _submodule(workspace: Workspace, program: str) -> None:
    inner = workspace.folder / "inner"
    inner.mkdir()
    (inner / "file").write_text("1")
    plain(inner, "init", "--quiet")
    plain(inner, "add", "--all")
    plain(inner, "commit", "--quiet", "--message", "inner")
    plain(inner, "config", "core.fsmonitor", program)
    workspace.plain("-c", "advice.addEmbeddedRepo=false", "add", "inner")
    workspace.write(".gitmodules", '[submodule "inner"]\n\tpath = inner\n\turl = ./inner\n\tignore = none\n')
    Settings(
        "submodule.inner.ignore=none",
        "submodule.inner.update=!PROGRAM",
        "diff.ignoreSubmodules=none",
        "submodule.recurse=true",
        "diff.submodule=diff",
        "status.submoduleSummary=true",
    )(workspace, program)


def _nested_bare(workspace: Workspace, program: str) -> None:
    bare = workspace.folder / "bare"
    plain(workspace.folder, "init", "--quiet", "--bare", str(bare))
    plain(bare, "config", "core.fsmonitor", program)


def _home(workspace: Workspace, program: str) -> None:
    """Where the sandbox's home is, git looks for settings too."""
    for path in (".gitconfig", ".config/git/config", "git/config"):
        workspace.write(path, f"[core]\n\tfsmonitor = {program}\n\tpager = {program}\n\teditor = {program}\n")


def _info_attributes(workspace: Workspace, program: str) -> None:
    workspace.write(".git/info/attributes", "* filter=x diff=x merge=x\n")
    Settings(
        "filter.x.clean",
        "filter.x.smudge",
        "filter.x.process",
        "diff.x.textconv",
        "diff.x.command",
        "merge.x.driver=PROGRAM %A %O %B",
    )(workspace, program)


def _maintenance(workspace: Workspace, program: str) -> None:
    hook = workspace.write(".git/hooks/pre-auto-gc", Path(program).read_bytes())
    hook.chmod(0o755)
    Settings(
        *("gc.auto=1", "gc.autoPackLimit=1", "gc.autoDetach=false", "maintenance.auto=true"),
        "gc.recentObjectsHook",
    )(workspace, program)


PLANTS: Mapping[str, Plant] = {
    "fsmonitor": Settings("core.fsmonitor"),
    "fsmonitor, version 1": Settings("core.fsmonitor", "core.fsmonitorHookVersion=1"),
    "external diff": Settings("diff.external"),
    "diff driver": attributes("* diff=x", "diff.x.command"),
    "textconv": attributes("* diff=x", "diff.x.textconv", "diff.x.cachetextconv=true"),
    "clean": attributes("* filter=x", "filter.x.clean", "filter.x.required=true"),
    "smudge": attributes("* filter=x", "filter.x.smudge", "filter.x.required=true"),
    "process": attributes("* filter=x", "filter.x.process", "filter.x.required=true"),
    "filter with an odd name": attributes("* filter=a=b", "filter.x.clean"),
    "filter with a dotted name": attributes("* filter=a.b", "filter.a.b.clean", "filter.a.b.smudge"),
    "filter named like a setting": attributes("* filter=clean", "filter.clean.clean", "filter.clean.smudge"),
    "filter with capitals": attributes("* filter=LFS", "filter.LFS.clean", "filter.LFS.process"),
    "merge driver": attributes("* merge=x", "merge.x.driver=PROGRAM %A %O %B", "merge.default=x"),
    "merge options": Settings("branch.main.mergeOptions=--strategy=evil", "pull.twohead=evil"),
    "hooks": _hooks(".git/hooks"),
    "hooks elsewhere": _hooks("own-hooks"),
    "ssh": Settings("core.sshCommand"),
    "git proxy": Settings("core.gitProxy"),
    "pager": Settings(
        "core.pager", "pager.log", "pager.diff", "pager.status", "pager.show", "pager.branch", "color.pager=true"
    ),
    "editor": Settings("core.editor", "sequence.editor", "commit.verbose=true"),
    "askpass": Settings("core.askPass"),
    "credential helper": Settings("credential.helper", "credential.https://127.0.0.1.helper"),
    "gpg": Settings(
        "gpg.program",
        "commit.gpgSign=true",
        "tag.gpgSign=true",
        "log.showSignature=true",
        "merge.verifySignatures=true",
        "push.gpgSign=if-asked",
    ),
    "gpg by ssh": Settings(
        "gpg.format=ssh", "gpg.ssh.program", "gpg.ssh.defaultKeyCommand", "commit.gpgSign=true", "user.signingKey=x"
    ),
    "gpg by x509": Settings("gpg.format=x509", "gpg.x509.program", "commit.gpgSign=true"),
    "aliases": Settings(
        *(f"alias.{name}=!PROGRAM" for name in "status diff log show commit switch branch add restore".split())
    ),
    "include": _included,
    "conditional include": _conditionally_included,
    "worktree's config": _worktree_config,
    "submodule": _submodule,
    "bare repository in a folder": _nested_bare,
    "home": _home,
    "info/attributes": _info_attributes,
    "insteadOf": Settings(
        "url.ext::PROGRAM .insteadOf=https://",
        "url.ext::PROGRAM .pushInsteadOf=https://",
        "url.ext::PROGRAM x.insteadOf=/",
        "protocol.ext.allow=always",
    ),
    "another remote": Settings(
        "remote.origin.url=ext::PROGRAM x",
        "remote.origin.pushurl=ext::PROGRAM y",
        "protocol.ext.allow=always",
        "remote.origin.vcs=evil",
        "remote.pushDefault=origin",
    ),
    "upload pack": Settings(
        "remote.origin.url=/nowhere",
        "remote.origin.uploadpack",
        "remote.origin.receivepack",
        "uploadpack.packObjectsHook",
    ),
    "alternate refs": Settings("core.alternateRefsCommand"),
    "trailers": Settings("trailer.sign.command", "trailer.sign.cmd", "trailer.sign.ifmissing=add"),
    "interactive filter": Settings("interactive.diffFilter", "add.interactive.useBuiltin=false"),
    "bundle address": Settings("fetch.bundleURI=ext::PROGRAM x", "transfer.bundleURI=true"),
    "http": Settings(
        "http.proxy=http://127.0.0.1:9",
        "http.sslVerify=false",
        "http.followRedirects=true",
        "http.extraHeader=X-Evil: 1",
        "http.sslCAInfo=/dev/null",
        "http.cookieFile=/dev/null",
    ),
    "trace": Settings("trace2.normalTarget=/dev/stdout", "trace2.eventTarget=/dev/stdout"),
    "colours and formats": Settings(
        "color.ui=always",
        "color.diff=always",
        "format.pretty=raw",
        "log.date=raw",
        "diff.noprefix=true",
        "diff.mnemonicPrefix=true",
        "core.quotePath=true",
        "status.short=true",
        "diff.orderFile=/etc/passwd",
        "commit.template=/etc/passwd",
    ),
    "tools": Settings("difftool.x.cmd", "diff.tool=x", "mergetool.x.cmd", "merge.tool=x", "browser.x.cmd", "man.x.cmd"),
    "maintenance": _maintenance,
}


def plant_everything(workspace: Workspace, program: str) -> None:
    for name in ("submodule", *PLANTS):  # first what needs git itself, which would run the others
        if not (workspace.folder / "inner").exists() or name not in ("submodule", "worktree's config"):
            PLANTS[name](workspace, program)


def lead_astray(workspace: Workspace, origin: str, elsewhere: str) -> None:
    """Settings by which git would go `elsewhere` in the place of `origin`, and take the credential there."""
    Settings(
        f"url.{elsewhere}/.insteadOf={origin}/",
        f"url.{elsewhere}/.pushInsteadOf={origin}/",
        f"remote.origin.pushurl={elsewhere}/ada/engine.git",
        f"http.{origin}.proxy={elsewhere}",
        f"http.{elsewhere}.proxy=",
        f"credential.{elsewhere}.username=x-access-token",
    )(workspace, "")


TOGETHER: tuple[tuple[str, ...], ...] = (
    ("fsmonitor", "editor", "insteadOf", "http", "clean", "hooks"),
    ("fsmonitor, version 1", "askpass", "another remote", "trace", "smudge", "bare repository in a folder"),
    ("submodule", "credential helper", "upload pack", "colours and formats", "process"),
    ("external diff", "gpg", "alternate refs", "tools", "conditional include", "filter with an odd name"),
    ("ssh", "gpg by ssh", "trailers", "home", "textconv", "filter with a dotted name"),
    (
        "git proxy",
        "gpg by x509",
        "interactive filter",
        "worktree's config",
        "diff driver",
        "filter named like a setting",
    ),
    ("pager", "aliases", "bundle address", "hooks elsewhere", "merge driver", "filter with capitals"),
    ("merge options", "include", "maintenance"),
    ("info/attributes",),
)
"""Plants that do not stand in each other's way: git as it is runs the program of each of them. A submodule comes first,
since git makes it."""

CONTROLS: Mapping[str, str] = {
    "smudge": "rm README.md; git checkout README.md",
    "merge driver": "git switch -c o; echo 1 >README.md; git commit -am 1; git switch main; echo 2 >README.md; "
    "git commit -am 2; git merge o",
    "merge options": "git switch -c o; git commit --allow-empty -m 1; git switch main; git commit --allow-empty -m 2; "
    "git merge o",
    "ssh": "git ls-remote ssh://127.0.0.1/x",
    "git proxy": "git ls-remote git://127.0.0.1/x",
    "pager": "script -qec 'git log' /dev/null",
    "editor": "git commit --amend",
    "askpass": "printf 'protocol=https\\nhost=h\\n\\n' | git credential fill",
    "credential helper": "printf 'protocol=https\\nhost=127.0.0.1\\n\\n' | git credential fill",
    "bare repository in a folder": "cd bare; git --work-tree=. status",
    "home": "unset GIT_CONFIG_GLOBAL; HOME=$PWD git status",
    "insteadOf": "git ls-remote https://127.0.0.1/x",
    "another remote": "git config --unset remote.origin.vcs; git ls-remote origin",
    "upload pack": "git ls-remote origin",
    "trailers": "git interpret-trailers --trailer sign=x README.md",
    "interactive filter": "yes q | head -2 | git -c color.ui=always add --patch",
    "tools": "git difftool --no-prompt",
    "maintenance": "git repack; git commit --allow-empty -m 1; git repack; git gc --auto",
}
"""Where the usual commands do not do it: how a person who suspects nothing has plain git run the program."""
SILENT = frozenset(
    {
        "filter with an odd name",  # `git config` cannot write it; test_planted.py does
        "aliases",  # of git's own commands, which beat them
        "alternate refs",  # only on the receiving side
        "bundle address",
        "http",
        "trace",
        "colours and formats",
    }
)
"""What names no program that plain git would run here; it is meant to lead astray where something is sent, or to spoil
answers."""
