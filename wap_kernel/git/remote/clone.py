"""Clone a remote's repository into a new folder of the workspace."""

from __future__ import annotations

from wap_kernel.files.interface import Files, NullGuard
from wap_kernel.git import output_parser
from wap_kernel.git.failure_messages import parse_git_error
from wap_kernel.git.local.changes import check_writes
from wap_kernel.git.local.repository import LocalRepository, Permits, path_denied_error
from wap_kernel.git.local.sandboxed_git import SandboxedGit
from wap_kernel.git.remote import bundles
from wap_kernel.git.remote.transfer import RemoteLink, import_refs
from wap_kernel.model.errors import InvalidArgument, translate_os_error
from wap_kernel.model.git import names
from wap_kernel.model.git.results import CloneResult, GitFailureReason, build_git_error

_INIT = """\
git init --quiet --template= --initial-branch="$1" . || exit
git config "remote.$2.url" "$3" || exit
git config "remote.$2.fetch" "+refs/heads/*:refs/remotes/$2/*" || exit
git config "branch.$1.remote" "$2" && git config "branch.$1.merge" "refs/heads/$1"
"""


def clone(
    link: RemoteLink,
    git: SandboxedGit,
    permits: Permits,
    path: str,
    *,
    branch: str | None = None,
    depth: int | None = None,
) -> CloneResult:
    """Clone the remote's repository into `path`; after a failure nothing of the folder is left."""
    if depth is not None:
        raise InvalidArgument("Shallow clones are not supported.", hint="Leave depth out: the whole history is cloned.")
    path = names.parse_git_path(path)
    if not permits.may_write(path):
        raise path_denied_error(path)
    files = git.provider.files.guarded_by(NullGuard())
    with link.server.lock():
        _check_absent(files, path)
        link.fetch_remote()
        chosen = names.check_branch_name(branch or _read_default_branch(link))
        tracking = f"refs/remotes/{link.server.remote.name}/{chosen}"
        commit = bundles.read_server_refs(link.server, tracking).get(tracking)
        if commit is None:
            raise build_git_error(
                GitFailureReason.UNKNOWN_REVISION, "The remote has no such branch, or no commit at all."
            )
        link.refuse_lfs(commit)
        try:
            files.mkdir(path, parents=True)
        except OSError as error:
            raise translate_os_error(error, path) from error
        try:
            return _populate(link, git, permits, path, chosen, commit)
        except BaseException:
            files.remove_tree(path)
            raise


def _check_absent(files: Files, path: str) -> None:
    try:
        if path != ".":
            files.stat(path, follow=False)
    except FileNotFoundError:
        return
    except OSError as error:
        raise translate_os_error(error, path) from error
    raise build_git_error(GitFailureReason.EXISTS, "The path exists already. Name a folder that does not exist yet.")


def _read_default_branch(link: RemoteLink) -> str:
    listed = link.run_remote("ls-remote", "--symref", "--quiet", "--end-of-options", link.server.remote.url, "HEAD")
    for line in output_parser.split_lines(listed):
        ref, _, name = line.removeprefix("ref: ").partition("\t")
        if line.startswith("ref: refs/heads/") and name == "HEAD":
            return ref.removeprefix("refs/heads/")
    raise build_git_error(
        GitFailureReason.UNKNOWN_REVISION, "The remote has no commit yet. Run `git init` and push instead."
    )


def _populate(
    link: RemoteLink, git: SandboxedGit, permits: Permits, path: str, branch: str, commit: str
) -> CloneResult:
    remote = link.server.remote
    output = git.run_script(_INIT, (branch, remote.name, remote.url), folder=path)
    if output.exit_code:
        raise parse_git_error(output.exit_code, output.stderr)
    repository = LocalRepository.open(git, permits, folder=path, remote=remote.name)
    if repository.info.folder != path:
        raise build_git_error(GitFailureReason.OUTSIDE, "The new repository is not where it was made. Try again.")
    _, listed = link.server.run("ls-tree", "-r", "-z", "--name-only", "--full-tree", commit)
    check_writes(repository, output_parser.split_records(listed))
    fetched = import_refs(link, git, repository.info)
    repository.change("reset", "--quiet", "--hard", "--no-recurse-submodules", commit)
    return CloneResult(remote.name, path, branch, commit, fetched.refs)
