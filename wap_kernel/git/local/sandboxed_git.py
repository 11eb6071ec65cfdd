"""Run git inside the sandbox: one process at a time, hardened, in a repository that was inspected first.

Git's output comes from inside the sandbox, where everything may be forged. It is parsed as data; ids and paths in it
are checked before they are used for anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from os.path import dirname

from wap_kernel.git import output_parser
from wap_kernel.git.failure_messages import parse_git_error
from wap_kernel.git.local import hardened_env
from wap_kernel.model.command import CancelToken, Command, CommandOutcome, Confinement, Stream
from wap_kernel.model.errors import TimedOut
from wap_kernel.model.git.results import GitError, GitFailureReason, build_git_error
from wap_kernel.model.limits import MAX_GIT_MESSAGE_BYTES, MAX_GIT_OUTPUT_BYTES
from wap_kernel.model.paths import relative_to, render_path
from wap_kernel.providers.base import Provider
from wap_kernel.redaction.redactor import Redactor

TIMEOUT_SECONDS = 120.0

_INSPECT_SCRIPT = """\
about=$(git rev-parse --path-format=absolute --is-shallow-repository --show-toplevel && echo .) || exit
common=$(git rev-parse --path-format=absolute --git-common-dir && echo .) || exit
own=$(git rev-parse --path-format=absolute --git-dir && echo .) || exit
common=${common%??} own=${own%??}
printf '%s\\0' "${about%??}" "$own" "$common"
[ -s "$common/objects/info/alternates" ] && echo alternates
if [ -n "$1" ]; then
    linked=$(find "$common/objects" "$common/refs" "$common/packed-refs" "$common/logs" "$common/shallow" \\
        "$own/index" "$own/refs" "$own/logs" -type l 2>/dev/null | head -c 1)
    case $(readlink "$own/HEAD") in *..*) linked=yes ;; '' | refs/*) ;; *) linked=yes ;; esac
    [ -n "$linked" ] && echo linked
fi
for name in MERGE_HEAD rebase-merge rebase-apply CHERRY_PICK_HEAD REVERT_HEAD BISECT_LOG; do
    [ -e "$own/$name" ] && echo "$name"
done
printf '\\0'
git config --list --name-only -z
"""
"""The script that inspects a repository.

The names of folders may hold line ends, also as their last character, which `$(...)` would take away. With an argument
the script also reports whether a part of the repository is a link: its objects would then be those of another
repository, and git would write there. A HEAD of the old kind, a link to `refs/...`, names a branch.
"""
_UNDERWAY_MARKS = {
    "MERGE_HEAD": "merge",
    "rebase-merge": "rebase",
    "rebase-apply": "rebase",
    "CHERRY_PICK_HEAD": "cherry-pick",
    "REVERT_HEAD": "revert",
    "BISECT_LOG": "bisect",
}


@dataclass(frozen=True)
class GitOutput:
    """The output of a git process that ended."""

    exit_code: int
    stdout: bytes
    stderr: str
    truncated: bool


@dataclass(frozen=True)
class RepositoryInfo:
    """The facts about a repository that are read before git runs in it."""

    folder: str
    """The top of the repository, relative to the workspace."""
    shallow: bool
    borrows: bool
    """The repository takes objects from another one (`objects/info/alternates`)."""
    underway: str | None
    settings: tuple[tuple[str, str], ...]
    """Settings that switch off the filters and merge drivers that the repository configures."""


class SandboxedGit:
    """Git, run through a provider. `root` is the workspace's real path, as commands see it."""

    def __init__(
        self,
        provider: Provider,
        root: str,
        *,
        confinement: Confinement | None = None,
        timeout: float = TIMEOUT_SECONDS,
        cancel: CancelToken | None = None,
    ) -> None:
        self.provider = provider
        self.root = root
        self._confinement = replace(confinement or Confinement(), network=False)
        self._timeout = timeout
        self._cancel = cancel
        self._redact = Redactor()

    def inspect(self, folder: str = ".") -> RepositoryInfo:
        """Return the facts about the repository that `folder` lies in; raise GitError if there is none."""
        # Where nothing confines git, a link could lead to any repository of the machine.
        output = self.run_script(_INSPECT_SCRIPT, () if self.provider.confines else ("links",), folder=folder)
        if output.exit_code:
            raise parse_git_error(output.exit_code, output.stderr)
        about, git_dir, common, marked, keys = map(output_parser.decode_text, output.stdout.split(b"\0", 4))
        shallow, _, top = about.partition("\n")
        marks = marked.split()
        relative = relative_to(top, self.root)
        if relative is None or any(relative_to(path, self.root) is None for path in (git_dir, common)):
            raise build_git_error(
                GitFailureReason.OUTSIDE,
                "The repository's files lie outside of the workspace. Clone it into the workspace instead.",
            )
        borrows = "alternates" in marks
        if borrows and not self.provider.confines:
            raise borrowed_objects_error()
        if "linked" in marks:
            raise build_git_error(
                GitFailureReason.OUTSIDE,
                "An entry of .git (objects, refs, the index) is a link, so it may be another repository's. Put the "
                "files themselves there, or clone the repository.",
            )
        drivers = hardened_env.find_drivers(keys.split("\0"))
        if (
            output.truncated
            or len(drivers) > hardened_env.MAX_DRIVERS
            or any(render_path(name) != name for _, name in drivers)
        ):
            # Then they cannot be switched off by name.
            raise build_git_error(
                GitFailureReason.OTHER,
                "The repository configures too many or oddly named filters. A person removes them first.",
            )
        return RepositoryInfo(
            folder=relative or ".",
            shallow=shallow == "true",
            borrows=borrows,
            underway=next((_UNDERWAY_MARKS[mark] for mark in marks if mark in _UNDERWAY_MARKS), None),
            settings=hardened_env.disable_drivers(drivers),
        )

    def run(
        self,
        info: RepositoryInfo,
        *arguments: str,
        settings: Iterable[tuple[str, str]] = (),
        accept: Sequence[int] = (0,),
        limit: int = MAX_GIT_OUTPUT_BYTES,
        partial: bool = False,
        index: str | None = None,
        **variables: str,
    ) -> GitOutput:
        """Run git at the top of a repository, with another `index` than its own if one is named.

        Raises GitError for an exit code that is not in `accept`, and for output beyond `limit` unless `partial`.
        """
        if index is not None:
            variables["GIT_INDEX_FILE"] = index
        output = self._run(("git", *arguments), info.folder, (*info.settings, *settings), limit=limit, **variables)
        if output.exit_code not in accept:
            raise parse_git_error(
                output.exit_code, output.stderr, output.stdout[:MAX_GIT_MESSAGE_BYTES].decode("utf-8", "replace")
            )
        if output.truncated and not partial:
            raise build_git_error(GitFailureReason.TOO_LARGE, "Git's answer is too long. Name fewer files.")
        return output

    def read(
        self,
        info: RepositoryInfo,
        *arguments: str,
        accept: Sequence[int] = (0,),
        limit: int = MAX_GIT_OUTPUT_BYTES,
        partial: bool = False,
        index: str | None = None,
    ) -> GitOutput:
        """Run a git command that changes nothing, not even the index's cache."""
        return self.run(
            info, *arguments, accept=accept, limit=limit, partial=partial, index=index, GIT_OPTIONAL_LOCKS="0"
        )

    def run_script(
        self, script: str, arguments: Sequence[str], *, folder: str, info: RepositoryInfo | None = None
    ) -> GitOutput:
        """Run a shell script with `arguments`: several git processes for the price of one sandbox."""
        settings = info.settings if info else ()
        return self._run(("sh", "-c", script, "sh", *arguments), folder, settings)

    def stream(self, info: RepositoryInfo, *arguments: str, take: Callable[[bytes], bool]) -> GitOutput:
        """Run git and pass its output to `take`, piece by piece, as it comes; False ends the command."""
        cancel = CancelToken()

        def on_chunk(stream: Stream, chunk: bytes) -> None:
            if stream == "stdout" and not take(chunk):
                cancel.request()

        with (self._cancel or CancelToken()).on_request(cancel.request):
            outcome = self._start(("git", *arguments), info.folder, info.settings, on_chunk, cancel, {})
        return GitOutput(outcome.exit_code, b"", self._redact(outcome.stderr), outcome.cancelled)

    def _run(
        self,
        program: Sequence[str],
        folder: str,
        settings: Iterable[tuple[str, str]],
        *,
        limit: int = MAX_GIT_OUTPUT_BYTES,
        **variables: str,
    ) -> GitOutput:
        stdout = bytearray()
        total = 0

        def on_chunk(stream: Stream, chunk: bytes) -> None:
            nonlocal total
            if stream == "stdout":
                total += len(chunk)
                stdout.extend(chunk[: max(0, limit - len(stdout))])

        outcome = self._start(program, folder, settings, on_chunk, self._cancel, variables)
        if outcome.cancelled:
            raise build_git_error(GitFailureReason.CANCELLED, "The git operation was cancelled.", outcome.exit_code)
        return GitOutput(outcome.exit_code, bytes(stdout), self._redact(outcome.stderr), total > limit)

    def _start(
        self,
        program: Sequence[str],
        folder: str,
        settings: Iterable[tuple[str, str]],
        on_chunk: Callable[[Stream, bytes], None],
        cancel: CancelToken | None,
        variables: dict[str, str],
    ) -> CommandOutcome:
        # Without a ceiling git would take a repository above the workspace for ours.
        environment = hardened_env.build_variables(settings, GIT_CEILING_DIRECTORIES=dirname(self.root), **variables)
        outcome = self.provider.run(
            Command(
                hardened_env.build_argv(program, environment),
                timeout=self._timeout,
                output_limit=MAX_GIT_MESSAGE_BYTES,
                cwd=folder,
                confinement=self._confinement,
            ),
            on_chunk=on_chunk,
            cancel=cancel,
        )
        if outcome.timed_out:
            raise TimedOut(
                f"Git did not end within {self._timeout:g} seconds.",
                hint="Work on fewer files or fewer commits at once.",
            )
        return outcome


def borrowed_objects_error() -> GitError:
    return build_git_error(
        GitFailureReason.BORROWED,
        "The repository borrows objects from another one (objects/info/alternates). Run `git repack -a -d`, remove "
        "that file, and try again.",
    )
