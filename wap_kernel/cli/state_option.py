"""Find the state folder of a command: that of the current folder, unless the options name another."""

from __future__ import annotations

import argparse
import os
import unicodedata

from wap_kernel.engine.jupyter_config import read_settings
from wap_kernel.model.errors import NotFound
from wap_kernel.state.directory import default_state_dir


def add_arguments(parser: argparse.ArgumentParser) -> None:
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--root", metavar="DIR", default=".", help="the folder that is served (default: this one)")
    which.add_argument(
        "--state-dir", metavar="DIR", help="its state folder (default: what Jupyter's configuration says)"
    )


def find_state_folder(args: argparse.Namespace) -> str:
    """Return the state folder that the options name; raise NotFound where it was never used."""
    folder: str = args.state_dir or read_settings().get("state_dir") or default_state_dir(args.root)
    if not os.path.isfile(os.path.join(folder, "state.db")):
        raise NotFound(
            f"There is no state in {folder!r}.",
            hint="Name the folder that is served with --root, or its state folder with --state-dir.",
        )
    return os.path.realpath(folder)


def escape_controls(text: str) -> str:
    """Escape newlines and control characters, which a path may hold and a terminal would obey."""
    return "".join(character if _is_harmless(character) else _escape(character) for character in text)


def _is_harmless(character: str) -> bool:
    return character == " " or unicodedata.category(character)[0] not in "CZ"


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
