"""Find the kernels that Jupyter knows on this machine, and the paths that the start of a kernel executes or obeys."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from glob import escape, glob

from wap_kernel.model.paths import relative_to

PREFIX_PARTS = ("bin", "lib", "lib64", "libexec", "include", "pyvenv.cfg", "conda-meta", "ssl")
"""The visible parts of a prefix that home lies in: `python` may have been installed into home itself."""
OBEYED_PARTS = (*PREFIX_PARTS, "share/jupyter", "etc/jupyter")
"""The parts of a prefix that an interpreter, or Jupyter in it, executes or obeys."""
PREFIX_MARKS = ("pyvenv.cfg", "conda-meta", "lib/python*", "lib/R", "lib/julia")
"""Files that distinguish a prefix from any other folder with a `bin` in it."""
SPEC = "kernel.json"
_INTERPRETER = re.compile(r"(python|pypy)[0-9.]*\Z")


@dataclass(frozen=True)
class KernelSpec:
    """A kernel: the file that describes it, and the words of the command that starts it."""

    path: str
    argv: tuple[str, ...]


def find_kernel_folders(ipython: str) -> tuple[str, ...]:
    """Return the folders in which Jupyter looks for kernels; `ipython` is the folder of IPython."""
    from jupyter_core.paths import jupyter_path

    return (*jupyter_path("kernels"), os.path.join(ipython, "kernels"))


def list_spec_paths(folders: Sequence[str]) -> Iterator[str]:
    """Yield the files in which kernels may be described."""
    for folder in folders:
        try:
            names = sorted(os.listdir(folder))
        except OSError:
            continue
        yield from (os.path.join(folder, name, SPEC) for name in names)


def read_kernelspecs(paths: Sequence[str]) -> Iterator[KernelSpec]:
    for path in paths:
        try:
            with open(path, encoding="utf-8") as file:
                argv = json.load(file)["argv"]
            words = tuple(word for word in argv if isinstance(word, str))
        except (OSError, ValueError, LookupError, TypeError, RecursionError):
            continue  # not a kernel, or one that does not work anyway
        if words:
            yield KernelSpec(path, words)


def is_prefix(folder: str) -> bool:
    return any(glob(os.path.join(escape(folder), mark)) for mark in PREFIX_MARKS)


def read_base_prefix(prefix: str) -> str | None:
    """Return the prefix that a virtual environment is based on."""
    try:
        with open(os.path.join(prefix, "pyvenv.cfg"), encoding="utf-8", errors="surrogateescape") as file:
            lines = file.read(65536).splitlines()
    except OSError:
        return None
    values = (value.strip() for name, _, value in (line.partition("=") for line in lines) if name.strip() == "home")
    return next((os.path.dirname(value) for value in values if value.startswith("/")), None)


def list_obeyed_paths(spec: KernelSpec, root: str) -> Iterator[str]:
    """Yield the paths below `root`, a real path, that the start of the kernel executes or obeys, if they exist or not.

    Links are followed, and `pyvenv.cfg` is believed wherever it lies: here that only closes more.
    """
    for path in {spec.path, os.path.realpath(spec.path)}:
        if relative_to(path, root):
            yield os.path.dirname(path)
    for word in spec.argv:
        if word.startswith("/"):
            for program in {os.path.normpath(word), os.path.realpath(word)}:
                yield from _list_program_paths(program, root)


def _list_program_paths(program: str, root: str) -> Iterator[str]:
    if relative_to(os.path.realpath(os.path.dirname(program)), root) is None:
        return
    yield program
    folder, name = os.path.split(program)
    prefix = os.path.dirname(folder)
    if os.path.basename(folder) != "bin" or not (_INTERPRETER.match(name) or is_prefix(prefix)):
        return
    base = read_base_prefix(prefix)
    yield from list_prefix_paths(prefix, root)
    if base is not None and is_prefix(base):
        yield from list_prefix_paths(base, root)


def list_prefix_paths(prefix: str, root: str) -> Iterator[str]:
    """Yield the paths of a prefix that are closed: all of it, or the obeyed parts where a person's files may be in it.

    The root itself may be a prefix, and an interpreter in a `bin` need not have one.
    """
    if relative_to(os.path.realpath(prefix), root) and is_prefix(prefix):
        yield prefix
    else:
        yield from (os.path.join(prefix, part) for part in OBEYED_PARTS)
