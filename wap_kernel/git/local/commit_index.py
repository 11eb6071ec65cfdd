"""A temporary index for a commit of named files: the repository's own index is changed once the commit is made.

So a commit that fails leaves nothing staged, and one of some files leaves out what else is staged.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from secrets import token_hex

from wap_kernel.git import output_parser
from wap_kernel.git.failure_messages import parse_git_error
from wap_kernel.git.local.repository import LocalRepository

_COPY = """\
own=$(git rev-parse --absolute-git-dir && echo .) || exit
index=${own%??}/index
if [ -e "$index" ]; then cp -p -- "$index" "$index.$1" || exit; fi
printf '%s' "$index.$1"
"""
"""The script that copies the index, with what git knows of the files: else git would read all of them again."""


@contextmanager
def open_commit_index(repository: LocalRepository, *, is_partial: bool) -> Iterator[LocalRepository]:
    """Yield the repository with a copy of its index; with `is_partial`, nothing is staged there."""
    output = repository.git.run_script(
        _COPY, (f"wap-{token_hex(8)}",), folder=repository.info.folder, info=repository.info
    )
    if output.exit_code:
        raise parse_git_error(output.exit_code, output.stderr)
    index = output_parser.decode_text(output.stdout)
    copied = replace(repository, index=index)
    try:
        if is_partial:
            is_first = repository.find_commit("HEAD") is None
            copied.change("read-tree", *(("--empty",) if is_first else ("--reset", "HEAD")))
        yield copied
    finally:
        repository.git.run_script('rm -f -- "$1" "$1.lock"', (index,), folder=repository.info.folder)
