"""Test the environment of a command, and the variables that a caller may not set."""

from __future__ import annotations

import os
import sys

import pytest

from wap_kernel.model.errors import InvalidArgument, PermissionDenied
from wap_kernel.providers.process.environment import (
    DEFAULT_PATH,
    GIT_SETTINGS,
    INHERITED,
    INHERITED_PROXIES,
    build_environment,
    restrict_search_path,
)

INTERPRETER = os.path.dirname(sys.executable)

SECRETS = """
    JUPYTER_TOKEN JUPYTERHUB_API_TOKEN JPY_API_TOKEN JPY_PARENT_PID JUPYTER_SERVER_ROOT CONFIGPROXY_AUTH_TOKEN WAP_TOKEN
    AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AWS_SESSION_TOKEN AZURE_CLIENT_SECRET GOOGLE_APPLICATION_CREDENTIALS
    GITHUB_TOKEN GH_TOKEN GITLAB_TOKEN GIT_ASKPASS GIT_SSH_COMMAND SSH_AUTH_SOCK NPM_TOKEN HF_TOKEN OPENAI_API_KEY
    ANTHROPIC_API_KEY PIP_INDEX_URL UV_INDEX_URL DATABASE_URL PGPASSWORD KUBECONFIG
    LD_PRELOAD LD_LIBRARY_PATH BASH_ENV ENV PYTHONSTARTUP PYTHONPATH NODE_OPTIONS BASH_FUNC_ls%% SHELLOPTS
""".split()


@pytest.mark.parametrize("name", SECRETS)
def test_the_server_keeps_its_secrets_and_its_hooks(name: str) -> None:
    assert name not in build_environment({name: "x", "PATH": "/bin"}, {})


@pytest.mark.parametrize(
    "name", ["HOME", "USER", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "VIRTUAL_ENV", "CONDA_PREFIX"]
)
def test_what_programs_need_is_kept(name: str) -> None:
    assert build_environment({name: "x"}, {})[name] == "x"


@pytest.mark.parametrize("name", sorted(INHERITED_PROXIES))
def test_a_proxy_is_kept_unless_its_address_holds_a_password(name: str) -> None:
    assert build_environment({name: "http://proxy:3128"}, {})[name] == "http://proxy:3128"
    assert name not in build_environment({name: "http://me:secret@proxy:3128"}, {})


def test_no_kept_name_looks_like_a_secret() -> None:
    assert [
        name for name in INHERITED if any(word in name for word in ("TOKEN", "KEY", "SECRET", "PASS", "CRED"))
    ] == []


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (None, f"{INTERPRETER}:{DEFAULT_PATH}"),
        ("", f"{INTERPRETER}:{DEFAULT_PATH}"),
        ("/a:/b", f"{INTERPRETER}:/a:/b"),
        (f"/a:{INTERPRETER}", f"/a:{INTERPRETER}"),
        ("/a::.:bin:../x:/a:/b:", f"{INTERPRETER}:/a:/b"),
    ],
)
def test_path_has_the_interpreter_and_no_folder_of_the_workspace(path: str | None, expected: str) -> None:
    assert build_environment({} if path is None else {"PATH": path}, {})["PATH"] == expected


@pytest.mark.parametrize(
    "name",
    """
    PATH IFS ENV HOME SHELL SHELLOPTS BASHOPTS BASH_ENV BASH_FUNC_ls%% BASH_FUNC_ls() PS4 PROMPT_COMMAND CDPATH ZDOTDIR
    LD_PRELOAD LD_LIBRARY_PATH LD_AUDIT DYLD_INSERT_LIBRARIES GCONV_PATH GLIBC_TUNABLES OPENSSL_CONF
    PYTHONSTARTUP PYTHONHOME PYTHONINSPECT PYTHONPATH PYTHONWARNINGS PYTHONBREAKPOINT PYTHONUSERBASE PYTEST_ADDOPTS
    NODE_OPTIONS NODE_PATH npm_config_script_shell PERL5OPT PERL5LIB PERL5DB RUBYOPT RUBYLIB LUA_INIT LUA_INIT_5_4
    JAVA_TOOL_OPTIONS JDK_JAVA_OPTIONS _JAVA_OPTIONS CLASSPATH DOTNET_STARTUP_HOOKS R_PROFILE_USER JULIA_LOAD_PATH
    GIT_SSH GIT_SSH_COMMAND GIT_EXTERNAL_DIFF GIT_CONFIG_COUNT GIT_DIR GIT_PAGER SSH_ASKPASS PAGER EDITOR LESSOPEN
    MAKEFLAGS GOFLAGS RUSTC_WRAPPER CARGO_BUILD_RUSTC_WRAPPER TAR_OPTIONS RIPGREP_CONFIG_PATH XDG_CONFIG_HOME
    JUPYTER_CONFIG_DIR IPYTHONDIR KUBECONFIG
    GH_PAGER SYSTEMD_PAGER PSQL_PAGER BAT_PAGER ANY_PAGER KUBE_EDITOR SUDO_EDITOR ANY_EDITOR PSQLRC GNUPGHOME GH_BROWSER
    COVERAGE_PROCESS_START COVERAGE_PROCESS_CONFIG COVERAGE_RCFILE
    """.split(),
)
def test_a_variable_that_runs_code_is_refused_by_name(name: str) -> None:
    with pytest.raises(PermissionDenied) as refusal:
        build_environment({}, {"FINE": "1", name: "x"})
    assert name in refusal.value.message
    assert refusal.value.details == {"variable": name}


@pytest.mark.parametrize("name", ["", "1A", "A B", "A-B", "A=B", "A\0", "A\n", "Ä", "\ud800"])
def test_a_malformed_name(name: str) -> None:
    with pytest.raises(InvalidArgument):
        build_environment({}, {name: "x"})


@pytest.mark.parametrize("value", ["a\0b", "\ud800"])
def test_a_malformed_value(value: str) -> None:
    with pytest.raises(InvalidArgument):
        build_environment({}, {"A": value})


def test_the_callers_variables_win() -> None:
    caller = {"LANG": "de_DE.UTF-8", "_x": "", "A1": "a=b\nc ü", "env": "prod", "GITHUB_SHA": "1", "PAGERS": "2"}
    assert build_environment({"LANG": "C"}, caller).items() >= caller.items()


@pytest.mark.parametrize(
    ("allowlist", "expected"),
    [
        (None, {"PATH", "LANG", "HOME", "A"}),
        (frozenset({"A", "LANG"}), {"PATH", "LANG", "A"}),
        (frozenset({"A"}), {"PATH", "A"}),
    ],
)
def test_only_what_the_policy_names(allowlist: frozenset[str] | None, expected: set[str]) -> None:
    server = {"PATH": "/bin", "LANG": "C", "HOME": "/home/u", "JUPYTER_TOKEN": "s3cret"}
    rebuilt = build_environment(server, {"A": "1"}, allowlist)
    assert set(rebuilt) == expected | GIT_SETTINGS.keys()


def test_the_path_of_a_sandbox_holds_no_folder_that_a_command_could_fill() -> None:
    prefix = os.path.join(sys.prefix, "bin")
    folders = ("/home/u/.local/bin", prefix, "/tmp/x/bin", "/usr/bin", "/home/u", "/home/user/bin")
    found = restrict_search_path({"PATH": os.pathsep.join(folders), "HOME": "/home/u", "TMPDIR": "/tmp/x"})
    assert found["PATH"].split(os.pathsep) == [prefix, "/usr/bin", "/home/user/bin"]
    assert found["HOME"] == "/home/u"


def test_a_callers_variable_that_the_policy_does_not_name() -> None:
    with pytest.raises(PermissionDenied, match="envAllowlist") as refusal:
        build_environment({}, {"A": "1"}, frozenset({"LANG", "HOME"}))
    assert refusal.value.hint == "Allowed: HOME, LANG."
