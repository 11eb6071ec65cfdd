"""Protect paths that no preset and no layer can open.

Hidden: the state folder and Jupyter's runtime folder, whose files have the server's token, which would undo everything;
and the files in which a person's programs store passwords, keys and tokens. Read-only: files that a later start of a
shell, an interpreter, Jupyter or git would execute or obey.

Names are compared without case: on a filesystem that ignores case `.GIT/hooks` is `.git/hooks`, and elsewhere nobody
misses a `.GIT`.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property

from wap_kernel.files.interface import FindFolders
from wap_kernel.model.errors import PathClosed
from wap_kernel.model.paths import Access, relative_to, split_path
from wap_kernel.providers.process import environment


class Protection(IntEnum):
    """The degree to which a path is protected."""

    OPEN = 0
    READ_ONLY = 1
    HIDDEN = 2


READ_ONLY_NAMES = (".cws-policy.json", ".git")
"""Names that are protected in every folder, with all below them, whether or not they exist.

All of `.git`, not only its hooks and config: a `.git` file or a `.git/commondir` makes git read its config elsewhere.
"""

HOME_FILES = (
    *(".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".bash_completion", ".profile"),
    *(".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout", ".kshrc", ".mkshrc", ".cshrc", ".tcshrc", ".login"),
    *(".inputrc", ".xprofile", ".xinitrc", ".xsessionrc", ".pam_environment", ".config/fish"),
    *(".config/environment.d", ".config/autostart", ".config/systemd", ".local/bin", ".local/lib", ".venv"),
    *(".Rprofile", ".Renviron", ".pdbrc", ".pythonrc", ".pythonrc.py", ".vimrc", ".config/nvim", ".emacs", ".emacs.d"),
    *(".gitconfig", ".config/git", ".condarc", ".conda/condarc", ".config/pip", ".pip", ".pydistutils.cfg", ".hgrc"),
    *(".vim", ".tmux.conf", ".config/tmux", ".screenrc", ".gdbinit", ".config/gdb", ".lldbinit", ".irbrc", ".perldb"),
    *("bin", ".julia/config", ".cargo/env", ".cargo/config.toml", ".cargo/bin", ".pyenv", ".nvm", ".oh-my-zsh"),
    *(".config/direnv", ".config/Code/User", ".claude/settings.json", ".codex/config.toml", ".gradle/init.gradle"),
    *(".psqlrc", ".sqliterc", ".forward", ".rhosts", ".config/htop", ".config/mc", ".xonshrc", ".config/xonsh"),
    *(".jupyter", ".ipython", ".config/ipython", ".local/share/jupyter", ".local/etc/jupyter", "Library/Jupyter"),
    *(
        ".config/bash_completion",
        ".local/share/bash-completion",
        ".xsession",
        ".local/share/systemd",
        ".config/nushell",
    ),
    *(".config/powershell", ".config/emacs", ".config/vim", ".exrc", ".nanorc", ".config/nano", ".config/helix"),
    *(".config/zed", ".config/VSCodium/User", ".vscode-server", ".config/hg", ".node_modules", ".config/ptpython"),
    *(".cargo/config", ".gradle/init.d", ".conda/.condarc", ".config/conda", ".mambarc", ".config/uv", ".bunfig.toml"),
    *(".config/pypoetry", ".yarnrc", ".gemrc", ".claude/settings.local.json", ".cursor/mcp.json", ".local/share/nvim"),
)
"""Files that shells, logins, interpreters, editors, git and installers execute or obey; relative to the home folder.

Those of Jupyter and IPython are the defaults: this server may be configured to use others, and the next one not.
"""

HOME_SECRETS = tuple(
    """
    .ssh .gnupg .pki .age .config/sops .password-store .config/op .local/share/keyrings .local/share/kwalletd
    .netrc _netrc .authinfo .authinfo.gpg .git-credentials .config/git/credentials .config/gh .config/hub
    .pypirc .npmrc .yarnrc.yml .gem/credentials .cargo/credentials .cargo/credentials.toml .m2/settings-security.xml
    .aws .azure .config/gcloud .boto .s3cfg .oci .fly .config/doctl .config/hcloud .config/rclone
    .kube .docker .config/containers/auth.json .terraform.d .terraformrc .vault-token
    .databricks .databrickscfg .databricks-connect .snowflake .snowsql .config/snowflake .bigqueryrc .dbt .kaggle
    .huggingface .cache/huggingface/token .cache/huggingface/stored_tokens
    .pgpass .my.cnf .mylogin.cnf .duckdb/stored_secrets .smbcredentials .subversion/auth .m2/settings.xml .Xauthority
    .claude/.credentials.json .codex/auth.json .gemini .config/github-copilot .config/pip/pip.conf .config/anthropic
    .bash_history .zsh_history .python_history .node_repl_history .psql_history .mysql_history .sqlite_history
    .viminfo .lesshst .Rhistory .julia/logs .local/share/fish .ipython/profile_default/history.sqlite
    .mozilla .thunderbird .config/google-chrome .config/chromium .config/BraveSoftware .config/microsoft-edge
    .local/share/jupyter/runtime .local/share/jupyter/wap Library/Jupyter/runtime Library/Jupyter/wap
    Library/Keychains
    """.split()
)
"""Files with passwords, keys and tokens, and the histories of shells; relative to the home folder."""

KERNEL_FOLDERS = ("/proc", "/sys", "/dev")
"""Folders of the kernel, where the environment of every process can be read, the server's among them."""


@dataclass(frozen=True)
class ProtectedPaths:
    """A `Guard`. `hidden` and `read_only` are paths relative to the root, as tuples of folded names."""

    hidden: frozenset[tuple[str, ...]]
    read_only: frozenset[tuple[str, ...]]
    secrets: tuple[str, ...] = ()
    """The hidden paths that belong to the server or its user, absolute, wherever they lie: for sandboxes."""
    fixed_paths: tuple[str, ...] = ()
    """All hidden and read-only paths, as opposed to names, relative to the root, in their own case."""
    prefixes: tuple[str, ...] = ()
    """Absolute folders of Python and its programs; those below the root are read-only."""

    def level(self, path: str) -> Protection:
        """Return how far `path`, a resolved path relative to the root, is protected."""
        folded = path.casefold()
        if not (self._first_names & {"", folded.partition("/")[0]} or any(name in folded for name in READ_ONLY_NAMES)):
            return Protection.OPEN  # the case of nearly every path, and this is asked for every file of a search
        names = _fold(path)
        if any(names[: len(protected)] == protected for protected in self.hidden):
            return Protection.HIDDEN
        if any(names[: len(protected)] == protected for protected in self.read_only) or any(
            name in READ_ONLY_NAMES for name in names
        ):
            return Protection.READ_ONLY
        return Protection.OPEN

    @cached_property
    def _first_names(self) -> frozenset[str]:
        return frozenset(path[0] if path else "" for path in (*self.hidden, *self.read_only))

    def check(self, path: str, access: Access, *, folder: bool = False) -> None:
        level = self.level(path)
        if level is Protection.HIDDEN:
            raise PathClosed(
                f"The path is protected: {path}",
                hint="It holds secrets of the server or of its user.",
                path=path,
                rule="protected",
            )
        if level is Protection.READ_ONLY and access is Access.WRITE:
            raise PathClosed(
                f"The path is read-only: {path}",
                hint="Programs obey or execute what stands there, so only a person changes it.",
                path=path,
                rule="protected",
            )

    def check_tree(self, path: str) -> None:
        """Raise PathClosed for a folder with something protected in it: it can be neither moved nor removed."""
        names = _fold(path)
        if any(protected[: len(names)] == names for protected in (*self.hidden, *self.read_only)):
            raise PathClosed(
                f"The folder holds protected files: {path}",
                hint="Change single files in it instead.",
                path=path,
                rule="protected",
            )

    def may_hold(self, path: str) -> bool:
        """Return False: `check_tree` knows the protected paths, and protected names stay so wherever they go."""
        return False

    def hidden_among(self, folder: str, names: Sequence[str], folders: FindFolders = tuple) -> Collection[str]:
        hidden = self.hidden_names(folder)
        return [name for name in names if name.casefold() in hidden] if hidden else ()

    def hidden_names(self, folder: str) -> frozenset[str]:
        return self._hidden_in.get(folder.casefold(), _NO_NAMES)

    def read_only_names(self, folder: str) -> frozenset[str]:
        """Return the casefolded names in `folder` that can be read but not changed."""
        return self._read_only_in.get(folder.casefold(), _NO_NAMES).union(READ_ONLY_NAMES)

    # Listings ask for every folder, and there are many protected paths when the root is the home folder.

    @cached_property
    def _hidden_in(self) -> dict[str, frozenset[str]]:
        return _by_folder(self.hidden)

    @cached_property
    def _read_only_in(self) -> dict[str, frozenset[str]]:
        return _by_folder(self.read_only)

    def names_leading_to_hidden(self, folder: str) -> frozenset[str]:
        names = _fold(folder)
        depth = len(names)
        return frozenset(path[depth] for path in self.hidden if len(path) > depth + 1 and path[:depth] == names)


_NO_NAMES: frozenset[str] = frozenset()


def _by_folder(paths: Iterable[tuple[str, ...]]) -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for path in paths:
        if path:
            found.setdefault("/".join(path[:-1]) or ".", set()).add(path[-1])
    return {folder: frozenset(names) for folder, names in found.items()}


def _fold(path: str) -> tuple[str, ...]:
    return tuple(name.casefold() for name in split_path(path))


def find_protected_paths(
    root: str, state_dir: str, *, hidden: Sequence[str] = (), read_only: Sequence[str] = ()
) -> ProtectedPaths:
    """Return the protected paths of this machine below `root`; the server adds `hidden` and `read_only`."""
    from jupyter_core.paths import (
        jupyter_config_dir,
        jupyter_config_path,
        jupyter_data_dir,
        jupyter_path,
        jupyter_runtime_dir,
    )

    home = os.path.expanduser("~")
    ipython = os.environ.get("IPYTHONDIR") or os.path.join(home, ".ipython")
    prefixes = environment.interpreter_prefixes(os.environ)
    # The states of other workspaces are no more this one's business than its own.
    secret = (
        *(state_dir, os.path.join(jupyter_data_dir(), "wap"), jupyter_runtime_dir()),
        *_at_home(home, HOME_SECRETS),
        *hidden,
    )
    obeyed = (
        *(jupyter_config_dir(), jupyter_data_dir(), *jupyter_config_path(), *jupyter_path(), ipython),
        *_at_home(home, HOME_FILES),
        *prefixes,
        *read_only,
    )
    return ProtectedPaths(
        hidden=frozenset((*_relative(root, secret, ancestors=True), *_relative(root, KERNEL_FOLDERS))),
        # A root inside sys.prefix is a person's work, so only paths strictly below the root count here.
        read_only=frozenset(_relative(root, obeyed)),
        secrets=tuple(filter(None, secret)),
        fixed_paths=tuple(sorted({inner for path in (*secret, *obeyed) if path and (inner := _below(root, path))})),
        prefixes=prefixes,
    )


def _at_home(home: str, names: Iterable[str]) -> Iterable[str]:
    """Yield the paths at home, and those where programs that heed the XDG variables look for them."""
    for name in names:
        yield os.path.join(home, name)
        for usual, variable in ((".config/", "XDG_CONFIG_HOME"), (".local/share/", "XDG_DATA_HOME")):
            if name.startswith(usual) and os.environ.get(variable):
                yield os.path.join(os.environ[variable], name.removeprefix(usual))


def _below(root: str, path: str) -> str | None:
    """Return `path` relative to the root; its last name is not followed, since it is the name that counts."""
    folder, name = os.path.split(os.path.abspath(path))
    return relative_to(os.path.join(os.path.realpath(folder), name), os.path.realpath(root))


def _relative(root: str, paths: Iterable[str], *, ancestors: bool = False) -> Iterable[tuple[str, ...]]:
    """Yield `paths` relative to the root; with `ancestors`, one that the root itself lies in closes all of it."""
    real_root = os.path.realpath(root)
    for path in filter(None, paths):
        for name in {os.path.realpath(path), os.path.abspath(path)}:
            relative = relative_to(name, real_root)
            if relative:
                yield _fold(relative)
            elif ancestors and relative_to(real_root, name) is not None:
                yield ()
