"""The names in a home folder that programs obey, and those of passwords and keys."""

from __future__ import annotations

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

PROGRAM_FOLDERS = frozenset(
    """
    bin .local/bin .local/lib .venv .pyenv .nvm .oh-my-zsh .cargo/bin .node_modules .vscode-server .local/share/nvim
    .local/share/jupyter .local/share/jupyter/runtime .local/share/jupyter/wap
    Library/Jupyter Library/Jupyter/runtime Library/Jupyter/wap
    """.split()
)
"""Names of folders that are full of programs or often change: links in them are not followed."""
