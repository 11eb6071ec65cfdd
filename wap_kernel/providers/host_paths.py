"""Gather the facts about this machine that `mounts.py` plans with: where the system, interpreters and home lie.

An interpreter is rarely one folder: a virtual environment is based on `~/.pyenv/versions/3.12`, which is a link, and a
kernel has an environment of its own. So the links of every known interpreter are resolved and noted, so that the
sandbox can have them too.

Nothing is taken from a file or a link below the root: an agent may have written it, and what it names would be visible
to every command. So an environment below the root works if its base is installed for the system, is the server's own,
or stands where pyenv and uv install interpreters.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from glob import glob

from wap_kernel.files.contained.root import Root
from wap_kernel.files.interface import FileKind, NullGuard
from wap_kernel.model.command import Confinement
from wap_kernel.model.errors import Conflict, OutsideWorkspace, WapError
from wap_kernel.model.paths import relative_to, split_path
from wap_kernel.providers.kernelspecs import (
    PREFIX_PARTS,
    find_kernel_folders,
    is_prefix,
    list_spec_paths,
    read_base_prefix,
    read_kernelspecs,
)
from wap_kernel.providers.layers.change_reader import is_whiteout
from wap_kernel.providers.mounts import HostPaths, ResolvedPath
from wap_kernel.providers.process.environment import active_environments

SYSTEM = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt"),
    *("/nix/store", "/gnu/store", "/run/current-system"),
)
SETTINGS = tuple(
    """
    alternatives ca-certificates crypto-policies fonts group host.conf hostname hosts java-*-openjdk ld.so.cache
    ld.so.conf ld.so.conf.d localtime mime.types nsswitch.conf os-release passwd pki/ca-trust pki/java pki/tls/certs
    pki/tls/cert.pem protocols R resolv.conf services ssl/cert.pem ssl/certs ssl/openssl.cnf terminfo timezone
    """.split()
)
"""Files of /etc that programs need to run: no passwords, no keys, no server's settings. Each costs a mount."""
_MAX_LINKS = 40


def gather_host_paths(root: Root, *, environment: Mapping[str, str], secrets: Sequence[str]) -> HostPaths:
    """Return the host's paths; the server's `environment` names home and the active Python environments."""
    home = environment.get("HOME") or os.path.expanduser("~")
    temporary = (home, "/tmp", "/var/tmp", *filter(None, map(environment.get, ("TMPDIR", "TMP", "TEMP"))))
    settings = [name for entry in SETTINGS for name in glob(os.path.join("/etc", entry))]
    software = (*SYSTEM, *settings, *_find_software(root.path, os.path.realpath(home), environment))
    resolved = _resolve_unique(software, root.path)
    return HostPaths(
        software=tuple(path for path in resolved if os.path.exists(path.real)),
        temporary=tuple(_resolve_unique(path for path in temporary if path.startswith("/"))),
        root_names=tuple(_resolve_unique(name for name in root.names if name != root.path)),
        secrets=tuple(dict.fromkeys(os.path.realpath(path) for path in secrets)),
        lstat_kind=lstat_kind,
    )


def lstat_kind(path: str) -> FileKind | None:
    try:
        return FileKind.of_mode(os.lstat(path).st_mode)
    except OSError:
        return None


def lstat_kind_below(files: Root, path: str) -> FileKind | None:
    """Return the kind of file at a real path below the root; raise Conflict where a link leads away by now."""
    try:
        found = files.guarded_by(NullGuard()).lstat(path)  # what the guard hides needs a mask
    except OutsideWorkspace:
        raise Conflict(
            "Protected files of the workspace were changed while the command was being started.",
            hint="Nothing was run. Try again.",
        ) from None
    if found is None or (found.kind is FileKind.SPECIAL and _is_whiteout(files, path)):
        return None
    return found.kind


def _is_whiteout(files: Root, path: str) -> bool:
    """Return whether `path` is an overlay whiteout, the device that marks a deleted entry."""
    try:
        with files.guarded_by(NullGuard()).locate(path) as location:
            return is_whiteout(os.stat(location.name, dir_fd=location.fd, follow_symlinks=False))
    except OSError:
        return False


def resolve_confinement(confinement: Confinement, files: Root) -> Confinement:
    """Return the confinement with real paths; a path that leads outside is left out, since it is not visible there."""
    return replace(
        confinement,
        hidden=tuple(_resolve_paths(confinement.hidden, files)),
        read_only=tuple(_resolve_paths(confinement.read_only, files)),
        pinned=tuple(_resolve_paths(confinement.pinned, files)),
    )


def _resolve_paths(paths: Sequence[str], files: Root) -> Iterator[str]:
    for path in paths:
        try:
            yield files.resolve(path)
        except (OSError, WapError):
            continue  # gone, or outside


def resolve_links(path: str, untrusted: str | None = None) -> ResolvedPath:
    """Return where `path` leads, following it component by component as the kernel does.

    Links below the real path `untrusted` are not followed.
    """
    pending = list(reversed(split_path(path)))
    reached = ""
    links: list[tuple[str, str]] = []
    while pending:
        name = pending.pop()
        if name == "..":
            reached = reached.rpartition("/")[0]
            continue
        step = f"{reached}/{name}"
        if untrusted is not None and relative_to(step, untrusted):
            reached = step
            continue
        try:
            text = os.readlink(step)
        except OSError:  # not a link, or nothing there
            reached = step
            continue
        if len(links) == _MAX_LINKS:
            break
        links.append((step, text))
        if text.startswith("/"):
            reached = ""
        pending.extend(reversed(split_path(text)))
    return ResolvedPath(reached or "/", tuple(links))


def _resolve_unique(paths: Sequence[str] | Iterator[str], untrusted: str | None = None) -> Iterator[ResolvedPath]:
    return (resolve_links(path, untrusted) for path in dict.fromkeys(paths))


def _find_software(root: str, home: str, environment: Mapping[str, str]) -> Iterator[str]:
    """Yield prefixes and interpreters; resolving an interpreter's links finds what lies between."""
    active = active_environments(environment)
    prefixes = [sys.prefix, sys.base_prefix, sys.exec_prefix, *active, *_find_interpreter_stores(home, environment)]
    activated_pythons = (os.path.join(prefix, "bin/python") for prefix in active)
    for interpreter in (
        sys.executable,
        getattr(sys, "_base_executable", ""),
        *activated_pythons,
        *_find_kernel_programs(root, home, environment),
    ):
        if interpreter.startswith("/") and os.path.exists(interpreter):
            prefixes += _find_prefixes(interpreter, root)
            yield interpreter
    for prefix in filter(None, prefixes):
        if relative_to(home, os.path.realpath(prefix)) is None:
            yield prefix
        else:
            yield from (os.path.join(prefix, part) for part in PREFIX_PARTS)


def _find_interpreter_stores(home: str, environment: Mapping[str, str]) -> Iterator[str]:
    """Yield the folders in which pyenv and uv install interpreters, on which an environment may be based."""
    data = environment.get("XDG_DATA_HOME") or os.path.join(home, ".local/share")
    yield os.path.join(environment.get("PYENV_ROOT") or os.path.join(home, ".pyenv"), "versions")
    yield environment.get("UV_PYTHON_INSTALL_DIR") or os.path.join(data, "uv/python")


def _find_prefixes(interpreter: str, root: str) -> Iterator[str]:
    """Yield the prefixes that an interpreter needs: its own, that of its link's target, and that of its `pyvenv.cfg`.

    A kernel may also be started by a script in a user's project, which no command needs to see.
    """
    folders = {os.path.dirname(interpreter), os.path.dirname(resolve_links(interpreter, root).real)}
    for folder in folders:
        prefix = os.path.dirname(folder)
        if relative_to(resolve_links(folder, root).real, root) is not None:
            continue
        if os.path.basename(folder) == "bin" and is_prefix(prefix):
            yield prefix
            settings = resolve_links(os.path.join(prefix, "pyvenv.cfg"), root).real
            base = None if relative_to(settings, root) else read_base_prefix(prefix)
            if base is not None:
                yield base


def _find_kernel_programs(root: str, home: str, environment: Mapping[str, str]) -> Iterator[str]:
    ipython = environment.get("IPYTHONDIR") or os.path.join(home, ".ipython")
    paths = [
        path
        for path in list_spec_paths(find_kernel_folders(ipython))
        if relative_to(resolve_links(path, root).real, root) is None
    ]
    yield from (spec.argv[0] for spec in read_kernelspecs(paths))
