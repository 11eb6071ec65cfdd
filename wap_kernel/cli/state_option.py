"""Which state folder a command is about: that of the folder one stands in, unless another is named."""

from __future__ import annotations

import argparse
import os
import unicodedata

from wap_kernel.engine.jupyter_config import configured
from wap_kernel.model.errors import NotFound
from wap_kernel.state.directory import default_state_dir


def add_arguments(parser: argparse.ArgumentParser) -> None:
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--root", metavar="DIR", default=".", help="the folder that is served (default: this one)")
    which.add_argument(
        "--state-dir", metavar="DIR", help="its state folder (default: what Jupyter's configuration says)"
    )


def find(args: argparse.Namespace) -> str:
    """The state folder; one that was never used is not made."""
    folder: str = args.state_dir or configured().get("state_dir") or default_state_dir(args.root)
    if not os.path.isfile(os.path.join(folder, "state.db")):
        raise NotFound(
            f"Nothing is kept in {folder!r}.",
            hint="Name the folder that is served with --root, or its state folder with --state-dir.",
        )
    return os.path.realpath(folder)


def printable(text: str) -> str:
    """On one line, with nothing that a terminal would obey: a path may hold newlines and escape sequences."""
    return "".join(character if _is_harmless(character) else _escaped(character) for character in text)


def _is_harmless(character: str) -> bool:
    return character == " " or unicodedata.category(character)[0] not in "CZ"


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
