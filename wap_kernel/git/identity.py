"""Find the identity of commits: the first source that names one counts.

The sources are, in order: the request, `WapExtension.git`, the GitHub App, the config of the repository, the global
configuration of the server's user, and at last the caller's name with an address that takes no mail. Nothing but name
and e-mail is read from a configuration: everything else there may name programs.
"""

from __future__ import annotations

import os
import re
import stat
import subprocess
from collections.abc import Mapping

from wap_kernel.git.local.repository import LocalRepository
from wap_kernel.git.output_parser import decode_text
from wap_kernel.model.caller import Caller
from wap_kernel.model.errors import InvalidArgument
from wap_kernel.model.git.results import Person

MAX_CONFIG_BYTES = 1024 * 1024
"""Bytes of a global configuration; a larger one is not read."""
READ_SECONDS = 10.0
NOREPLY_DOMAIN = "noreply.invalid"
"""The domain of addresses that take no mail; no domain below `invalid` ever exists."""

_KEYS = ("user.name", "user.email")
_AUTHOR = re.compile(r"\s*([^<>\x00-\x1f\x7f]*[^<>\s\x00-\x1f\x7f])\s*<([^<>\s\x00-\x1f\x7f]+)>\s*")
_FORBIDDEN = re.compile(r"[<>\x00-\x1f\x7f]")


def parse_author(text: str) -> Person:
    """Return the person of `Name <e-mail>`."""
    match = _AUTHOR.fullmatch(text)
    if match is None or not is_usable(match[1]):
        raise InvalidArgument("author: Not a name and an e-mail address.", hint="Write it like Ada <ada@example.org>.")
    return Person(match[1].strip(), match[2])


def is_usable(text: str) -> bool:
    """Return whether git takes a name: dots, commas and quotes at both ends do not count."""
    return bool(_FORBIDDEN.sub("", text).strip(" .,:;\"'\\"))


def complete_identity(repository: LocalRepository, caller: Caller, environment: Mapping[str, str]) -> Person | None:
    """Return the identity where the repository's config does not name all of it; None: git takes it from there."""
    output = repository.read("config", "--null", "--get-regexp", r"^user\.(name|email)$", accept=(0, 1))
    own = parse_config(output.stdout)
    if all(own.get(key) for key in _KEYS):
        return None
    known = {**read_global_config(environment), **own}
    fallback = describe_caller(caller)
    return Person(known.get("user.name") or fallback.name, known.get("user.email") or fallback.email)


def describe_caller(caller: Caller) -> Person:
    """Return the agent, or the person where there is none, with an address that takes no mail."""
    name = _FORBIDDEN.sub(" ", caller.agent or caller.user).strip()
    name = name if is_usable(name) else "wap"
    local = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.") or "wap"
    return Person(name, f"{local}@{NOREPLY_DOMAIN}")


def read_global_config(environment: Mapping[str, str]) -> dict[str, str]:
    """Return name and e-mail of the server user's own configuration, as far as it names them."""
    home = environment.get("HOME") or os.path.expanduser("~")
    folder = environment.get("XDG_CONFIG_HOME") or os.path.join(home, ".config")
    found: dict[str, str] = {}
    for path in (os.path.join(folder, "git", "config"), os.path.join(home, ".gitconfig")):  # the last one counts
        if _is_readable(path):
            found |= {key: value for key, value in parse_config(_run_config(path, environment)).items() if value}
    return found


def parse_config(output: bytes) -> dict[str, str]:
    """Return the values that `git config --null` printed; the last one of a key counts."""
    pairs = (record.partition("\n") for record in decode_text(output).split("\0") if record)
    return {key.lower(): _FORBIDDEN.sub("", value).strip() for key, _, value in pairs}


def _is_readable(path: str) -> bool:
    try:
        found = os.stat(path)
    except OSError:
        return False
    return stat.S_ISREG(found.st_mode) and found.st_size <= MAX_CONFIG_BYTES


def _run_config(path: str, environment: Mapping[str, str]) -> bytes:
    """Read a configuration on the host. Git only parses the file: includes are not followed, and nothing runs."""
    argv = ("git", "config", "--file", path, "--no-includes", "--null", "--get-regexp", r"^user\.(name|email)$")
    variables = {"PATH": environment.get("PATH", os.defpath), "LC_ALL": "C", "GIT_CONFIG_NOSYSTEM": "1"}
    try:
        done = subprocess.run(
            argv,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            env=variables,
            cwd="/",
            timeout=READ_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return b""
    return done.stdout if done.returncode == 0 else b""
