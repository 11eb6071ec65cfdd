"""Build the environment of a command anew: chosen variables of the server, then the caller's own.

The server's environment holds tokens (Jupyter's, the hub's, cloud keys), so a command inherits only the variables that
are named here. A caller may not set a variable that makes a program run other code or a name mean another program:
policy decides about the command line, and `git status` with GIT_EXTERNAL_DIFF set is no longer `git status`. Such a
variable can still be written into the command itself (`PYTHONPATH=src pytest`), where policy sees it. No list of this
kind is complete.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Mapping

from wap_kernel.model.errors import InvalidArgument, PermissionDenied
from wap_kernel.model.paths import relative_to

DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"

INHERITED = frozenset(
    """
    HOME USER LOGNAME SHELL LANG LANGUAGE TZ TERM COLORTERM TMPDIR TMP TEMP
    XDG_CACHE_HOME XDG_CONFIG_HOME XDG_DATA_HOME XDG_STATE_HOME
    VIRTUAL_ENV CONDA_PREFIX CONDA_DEFAULT_ENV CONDA_EXE CONDA_PYTHON_EXE CONDA_SHLVL CONDA_ENVS_PATH CONDA_PKGS_DIRS
    MAMBA_EXE MAMBA_ROOT_PREFIX PYENV_ROOT UV_CACHE_DIR PIP_CACHE_DIR
    JAVA_HOME SPARK_HOME HADOOP_HOME HADOOP_CONF_DIR R_HOME R_LIBS_USER R_LIBS_SITE JULIA_DEPOT_PATH
    GOPATH GOROOT CARGO_HOME RUSTUP_HOME NVM_DIR
    GDAL_DATA PROJ_LIB PROJ_DATA NLTK_DATA HF_HOME TORCH_HOME MPLCONFIGDIR MPLBACKEND
    CUDA_HOME CUDA_PATH CUDA_VISIBLE_DEVICES NVIDIA_VISIBLE_DEVICES
    OMP_NUM_THREADS OPENBLAS_NUM_THREADS MKL_NUM_THREADS NUMEXPR_NUM_THREADS NUMEXPR_MAX_THREADS POLARS_MAX_THREADS
    SSL_CERT_FILE SSL_CERT_DIR REQUESTS_CA_BUNDLE CURL_CA_BUNDLE NODE_EXTRA_CA_CERTS PIP_CERT
    NO_PROXY no_proxy
    """.split()
)
INHERITED_PREFIXES = ("LC_",)
INHERITED_PROXIES = frozenset("HTTP_PROXY HTTPS_PROXY ALL_PROXY http_proxy https_proxy all_proxy".split())
"""Variables that a command inherits unless the address holds a user and a password."""

REFUSED = frozenset(
    """
    PATH CDPATH IFS ENV HOME SHELL SHELLOPTS PS4 PROMPT_COMMAND ZDOTDIR FPATH
    GCONV_PATH GETCONF_DIR GLIBC_TUNABLES HOSTALIASES LOCALDOMAIN LOCPATH NLSPATH RESOLV_HOST_CONF RES_OPTIONS TZDIR
    TERMCAP TERMINFO TERMINFO_DIRS TERMPATH INPUTRC
    OPENSSL_CONF OPENSSL_ENGINES OPENSSL_MODULES KRB5_CONFIG SASL_PATH CURL_HOME WGETRC NETRC
    EDITOR VISUAL FCEDIT PAGER MANPAGER MANOPT LESSOPEN LESSCLOSE LESSKEY LESSKEYIN LESSKEY_CONTENT
    BROWSER GH_BROWSER SUDO_ASKPASS GNUPGHOME PSQLRC
    EXINIT VIMINIT GVIMINIT VIM VIMRUNTIME MYVIMRC EMACSLOADPATH
    TAR_OPTIONS UNZIP UNZIPOPT ZIPOPT RSYNC_RSH RSYNC_CONNECT_PROG CVS_RSH SVN_SSH HGRCPATH
    MAKEFILES MAKEFLAGS GNUMAKEFLAGS MFLAGS
    RUSTC RUSTDOC RUSTC_WRAPPER RUSTC_WORKSPACE_WRAPPER RUSTFLAGS RUSTUP_HOME RUSTUP_TOOLCHAIN
    GOFLAGS GOENV GOROOT GOPATH GOTOOLCHAIN GCC_EXEC_PREFIX COMPILER_PATH
    PYTHONSTARTUP PYTHONHOME PYTHONINSPECT PYTHONPATH PYTHONWARNINGS PYTHONBREAKPOINT PYTHONEXECUTABLE PYTHONUSERBASE
    PYTHONPLATLIBDIR PYTHONPYCACHEPREFIX PYTHON_PRESITE PYTEST_ADDOPTS PYTEST_PLUGINS IPYTHONDIR
    COVERAGE_PROCESS_START COVERAGE_PROCESS_CONFIG COVERAGE_RCFILE
    VIRTUAL_ENV CONDA_PREFIX CONDA_EXE CONDARC
    NODE_OPTIONS NODE_PATH NODE_REPL_EXTERNAL_MODULE BUN_OPTIONS DENO_DIR
    PERL5OPT PERL5LIB PERL5DB PERLLIB PERL_MM_OPT PERL_MB_OPT RUBYOPT RUBYLIB RUBYSHELL BUNDLE_GEMFILE GEM_HOME GEM_PATH
    JAVA_TOOL_OPTIONS JDK_JAVA_OPTIONS _JAVA_OPTIONS JAVA_OPTS JAVA_HOME CLASSPATH MAVEN_OPTS MAVEN_ARGS GRADLE_OPTS
    SBT_OPTS SPARK_HOME SPARK_CONF_DIR HADOOP_CONF_DIR
    R_HOME R_ENVIRON R_ENVIRON_USER R_PROFILE R_PROFILE_USER R_LIBS R_LIBS_USER R_LIBS_SITE R_DEFAULT_PACKAGES
    JULIA_LOAD_PATH JULIA_DEPOT_PATH JULIA_PROJECT JULIA_BINDIR
    LUA_INIT LUA_PATH LUA_CPATH PHPRC PHP_INI_SCAN_DIR TCLLIBPATH GUILE_LOAD_PATH OCAMLRUNPARAM GHCRTS
    ERL_FLAGS ERL_AFLAGS ERL_ZFLAGS ERL_LIBS ELIXIR_ERL_OPTIONS
    KUBECONFIG AWS_CONFIG_FILE AWS_SHARED_CREDENTIALS_FILE DOCKER_CONFIG CLOUDSDK_CONFIG
    RIPGREP_CONFIG_PATH FZF_DEFAULT_COMMAND FZF_DEFAULT_OPTS BAT_CONFIG_PATH ACKRC DIRENV_CONFIG
    """.split()
)
REFUSED_PREFIXES = tuple(
    """
    LD_ DYLD_ BASH GIT_ SSH_ XDG_ JUPYTER JPY_ LUA_INIT_ LUA_PATH_ LUA_CPATH_ CARGO_ DOTNET_
    CORECLR_ COR_PROFILER COR_ENABLE npm_config_ NPM_CONFIG_ YARN_ PNPM_ PIP_ UV_
    """.split()
)
REFUSED_SUFFIXES = ("_PAGER", "_EDITOR")

GIT_SETTINGS = {
    "GIT_CONFIG_COUNT": "2",
    **{"GIT_CONFIG_KEY_0": "core.fsmonitor", "GIT_CONFIG_VALUE_0": "false"},
    **{"GIT_CONFIG_KEY_1": "safe.bareRepository", "GIT_CONFIG_VALUE_1": "explicit"},
}
"""Settings that keep git from running a program that a folder names.

Git takes a folder with a HEAD, a config and some more for a repository. Any agent can write one, and its config names a
program that `git status` runs. So only a folder named `.git` counts, and git does not run that program.
"""
GIT_ATTRIBUTES = "/run/wap-gitattributes"
"""The path in a sandbox of the attributes from `policy/commands/git_attributes.py`."""
GIT_CLOSED = "closed-by-policy"
"""The filter that these attributes name.

A closed file is empty in a sandbox, and `git commit -a` would commit that. So git takes its content from the index, and
cannot add a closed file that the index does not have.
"""
GIT_ATTRIBUTES_SETTINGS = {
    "GIT_CONFIG_COUNT": "6",
    **{"GIT_CONFIG_KEY_2": "core.attributesFile", "GIT_CONFIG_VALUE_2": GIT_ATTRIBUTES},
    **{"GIT_CONFIG_KEY_3": f"filter.{GIT_CLOSED}.clean", "GIT_CONFIG_VALUE_3": "git cat-file blob :0:%f"},
    **{"GIT_CONFIG_KEY_4": f"filter.{GIT_CLOSED}.smudge", "GIT_CONFIG_VALUE_4": "cat"},
    **{"GIT_CONFIG_KEY_5": f"filter.{GIT_CLOSED}.required", "GIT_CONFIG_VALUE_5": "true"},
}
"""Further settings of git, for a sandbox with such attributes."""
TOOL_SETTINGS = {"PYTHONSAFEPATH": "1", "PYTHONNOUSERSITE": "1"}
"""Variables of a command to whose tool a rule opened the network, see `policy/commands/network_tools.py`.

Python imports neither a `pip.py` from the folder that it starts in nor a module from the home folder.
"""
ALWAYS_SET = frozenset({"PATH", *GIT_SETTINGS})
"""Variables that a command gets whatever an allowlist says."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def build_environment(
    server: Mapping[str, str], caller: Mapping[str, str], allowlist: frozenset[str] | None = None
) -> dict[str, str]:
    """Return the whole environment of a command; raise for a variable that the caller may not set.

    With an `allowlist` the command gets no other variable but ALWAYS_SET, neither from the server nor from the caller.
    """
    environment = {name: value for name, value in server.items() if _is_inherited(name, value)}
    environment |= GIT_SETTINGS
    environment["PATH"] = _build_search_path(server.get("PATH") or DEFAULT_PATH, os.path.dirname(sys.executable or ""))
    for name, value in caller.items():
        check_variable(name, value)
        if allowlist is not None and name not in allowlist:
            raise PermissionDenied(
                f"The environment variable {name} is not in the policy's envAllowlist.",
                hint=f"Allowed: {', '.join(sorted(allowlist)) or 'none'}.",
                variable=name,
                rule="envAllowlist",
            )
        environment[name] = value
    if allowlist is None:
        return environment
    return {name: value for name, value in environment.items() if name in allowlist or name in ALWAYS_SET}


def restrict_search_path(server: Mapping[str, str]) -> dict[str, str]:
    """Return the server's environment without the folders of PATH that a command can fill in a sandbox.

    Otherwise a command would decide itself what `ls` is. The folders of interpreters stay: they are read-only.
    """
    own = [server.get("HOME") or os.path.expanduser("~"), server.get("TMPDIR") or "/tmp", "/tmp", "/var/tmp"]
    interpreters = interpreter_prefixes(server)
    folders = [
        folder
        for folder in (server.get("PATH") or DEFAULT_PATH).split(os.pathsep)
        if (_is_below(folder, interpreters) and os.path.isdir(folder)) or not _is_below(folder, own)
    ]
    return {**server, "PATH": os.pathsep.join(folders)}


def active_environments(server: Mapping[str, str]) -> tuple[str, ...]:
    """Return the folders of the Python environments that are active for the server."""
    return tuple(prefix for name in ("CONDA_PREFIX", "VIRTUAL_ENV") if (prefix := server.get(name, "")).startswith("/"))


def interpreter_prefixes(server: Mapping[str, str]) -> tuple[str, ...]:
    """Return the folders of interpreters and their packages, which no command may change."""
    return (sys.prefix, sys.base_prefix, *active_environments(server))


def _is_below(folder: str, tops: Iterable[str]) -> bool:
    return any(relative_to(folder, top) is not None for top in tops)


def _is_inherited(name: str, value: str) -> bool:
    return name in INHERITED or name.startswith(INHERITED_PREFIXES) or (name in INHERITED_PROXIES and "@" not in value)


def _build_search_path(path: str, interpreter: str) -> str:
    """Return `path` with the server's interpreter, and without relative folders, which would lie in the workspace."""
    folders = list(dict.fromkeys(folder for folder in path.split(os.pathsep) if folder.startswith("/")))
    if interpreter and interpreter not in folders:
        folders.insert(0, interpreter)
    return os.pathsep.join(folders)


def check_variable(name: str, value: str) -> None:
    """Raise for a variable that no caller may set, whatever the policy."""
    if name in REFUSED or name.startswith(REFUSED_PREFIXES) or name.endswith(REFUSED_SUFFIXES):
        raise PermissionDenied(
            f"The environment variable {name} may not be set: it changes which code a program runs.",
            hint="Set it in the command itself, where policy can see it.",
            variable=name,
        )
    if not _NAME.match(name):
        raise InvalidArgument(
            f"Not the name of an environment variable: {name!r}",
            hint="A name has letters, digits and underscores, and no digit first.",
        )
    if "\0" in value:
        raise InvalidArgument(f"The environment variable {name} contains a NUL character.")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InvalidArgument(f"The environment variable {name} is not valid Unicode.") from None
