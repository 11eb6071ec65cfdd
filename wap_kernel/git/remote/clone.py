"""Clone: a new folder of the workspace with the remote's repository in it."""

from __future__ import annotations

from wap_kernel.files.interface import Files
from wap_kernel.files.unguarded import Unguarded
from wap_kernel.git import output_parser
from wap_kernel.git.failure_messages import explained
from wap_kernel.git.local.changes import check_writes
from wap_kernel.git.local.repository import Permits, Work, denied
from wap_kernel.git.local.sandboxed_git import Inside
from wap_kernel.git.remote import bundles
from wap_kernel.git.remote.transfer import Link, bring_in
from wap_kernel.model.errors import InvalidArgument, from_os_error
from wap_kernel.model.git import names
from wap_kernel.model.git.results import Cloned, Reason, failed

_INIT = """\
git init --quiet --template= --initial-branch="$1" . || exit
git config "remote.$2.url" "$3" || exit
git config "remote.$2.fetch" "+refs/heads/*:refs/remotes/$2/*" || exit
git config "branch.$1.remote" "$2" && git config "branch.$1.merge" "refs/heads/$1"
"""


def clone(
    link: Link, inside: Inside, permits: Permits, path: str, *, branch: str | None = None, depth: int | None = None
) -> Cloned:
    """Nothing of the folder is left if it fails."""
    if depth is not None:
        raise InvalidArgument("Shallow clones are not supported.", hint="Leave depth out: the whole history is cloned.")
    path = names.path(path)
    if not permits.may_write(path):
        raise denied(path)
    files = inside.provider.files.guarded_by(Unguarded())
    with link.host.held():
        _refuse_existing(files, path)
        link.update()
        chosen = names.branch(branch or _default_branch(link))
        tracking = f"refs/remotes/{link.host.remote.name}/{chosen}"
        commit = bundles.refs(link.host, tracking).get(tracking)
        if commit is None:
            raise failed(Reason.UNKNOWN_REVISION, "The remote has no such branch, or no commit at all.")
        link.refuse_lfs(commit)
        try:
            files.mkdir(path, parents=True)
        except OSError as error:
            raise from_os_error(error, path) from error
        try:
            return _fill(link, inside, permits, path, chosen, commit)
        except BaseException:
            files.remove_tree(path)
            raise


def _refuse_existing(files: Files, path: str) -> None:
    try:
        if path != ".":
            files.stat(path, follow=False)
    except FileNotFoundError:
        return
    except OSError as error:
        raise from_os_error(error, path) from error
    raise failed(Reason.EXISTS, "Something stands at that path already. Name a folder that does not exist yet.")


def _default_branch(link: Link) -> str:
    said = link.remotely("ls-remote", "--symref", "--quiet", "--end-of-options", link.host.remote.url, "HEAD")
    for line in output_parser.rows(said):
        ref, _, name = line.removeprefix("ref: ").partition("\t")
        if line.startswith("ref: refs/heads/") and name == "HEAD":
            return ref.removeprefix("refs/heads/")
    raise failed(Reason.UNKNOWN_REVISION, "The remote has no commit yet. Run `git init` and push instead.")


def _fill(link: Link, inside: Inside, permits: Permits, path: str, branch: str, commit: str) -> Cloned:
    remote = link.host.remote
    ran = inside.shell(_INIT, (branch, remote.name, remote.url), folder=path)
    if ran.exit_code:
        raise explained(ran.exit_code, ran.stderr)
    work = Work.open(inside, permits, folder=path, remote=remote.name)
    if work.repository.folder != path:
        raise failed(Reason.OUTSIDE, "The new repository is not where it was made. Try again.")
    _, listed = link.host.git("ls-tree", "-r", "-z", "--name-only", "--full-tree", commit)
    check_writes(work, output_parser.lines(listed))
    fetched = bring_in(link, inside, work.repository)
    work.change("reset", "--quiet", "--hard", "--no-recurse-submodules", commit)
    return Cloned(remote.name, path, branch, commit, fetched.refs)
