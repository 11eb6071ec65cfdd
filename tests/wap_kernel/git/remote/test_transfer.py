"""Push, fetch, pull and clone against a real git server, with a credential that nobody in the workspace sees."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.git_repository import BOT, denying, plain
from tests.support.git_server import INSTALLATION, GitServer
from tests.support.git_team import Team
from wap_kernel.git.local import changes, queries
from wap_kernel.git.remote.credentials import NoCredential, TokenFile
from wap_kernel.git.remote.server_repository import ServerRepository
from wap_kernel.git.remote.transfer import RemoteLink, fetch, pull, push
from wap_kernel.model.command import Confinement
from wap_kernel.model.errors import InvalidArgument, PermissionDenied, ProviderUnavailable
from wap_kernel.model.git.results import GitError, GitFailureReason, Person, RefChange
from wap_kernel.policy.git_remotes import RemoteVerb, list_remote_effects, parse_remote


def reason(caught: pytest.ExceptionInfo[GitError]) -> GitFailureReason:
    return caught.value.failure.reason


def test_git_push(team: Team) -> None:
    workspace = team.workspace
    workspace.write("a", "1")
    host = BOT.email.replace("github.com", "127.0.0.1")
    assert team.app.identity() == Person(BOT.name, host)
    made = changes.commit(workspace.open_repository(), "fix: update port", ["a"])
    pushed = push(team.link(), workspace.open_repository())
    assert pushed.refs == (RefChange("main", None, made.id),)
    assert team.there("rev-parse", "main").strip() == made.id
    assert team.there("log", "-1", "--format=%an <%ae> %cn", "main").strip() == f"{BOT.name} <{BOT.email}> {BOT.name}"
    assert team.server.narrowed == [{"repositories": ["engine"], "permissions": {"contents": "write"}}]
    status = queries.status(workspace.open_repository())
    assert (status.upstream, status.ahead, status.behind) == ("origin/main", 0, 0)
    # again, and then with something new: only that is transferred
    assert push(team.link(), workspace.open_repository()).refs == (RefChange("main", made.id, made.id),)
    workspace.write("a", "2")
    again = changes.commit(workspace.open_repository(), "second", ["a"])
    assert queries.status(workspace.open_repository()).ahead == 1
    assert push(team.link(), workspace.open_repository()).refs == (RefChange("main", made.id, again.id),)
    assert len(team.server.narrowed) == 1


def test_fetch_and_pull(team: Team, tmp_path: Path) -> None:
    workspace = team.workspace
    push(team.link(), workspace.open_repository())
    theirs = team.colleague(tmp_path / "colleague", "b", "theirs")
    team.there("tag", "-a", "v1", "-m", "one", theirs, "--force")
    fetched = fetch(team.link(), workspace.open_repository())
    assert {ref.name for ref in fetched.refs} == {"origin/main", "v1"}
    status = queries.status(workspace.open_repository())
    assert (status.ahead, status.behind, status.untracked) == (0, 1, ())
    pulled = pull(team.link(), workspace.open_repository())
    assert (pulled.kind, pulled.after) == ("fast-forward", theirs)
    assert (workspace.folder / "b").read_text() == "theirs"
    assert workspace.plain("describe").strip() == "v1"
    assert pull(team.link(), workspace.open_repository()).kind == "up-to-date"
    assert workspace.plain("fsck", "--strict") == ""
    assert sorted(path.name for path in workspace.folder.iterdir()) == [".git", "README.md", "b"]


def test_pull_merges_or_tells_the_conflict(team: Team, tmp_path: Path) -> None:
    workspace = team.workspace
    push(team.link(), workspace.open_repository())
    team.colleague(tmp_path / "colleague", "b", "theirs")
    workspace.write("c", "ours")
    workspace.save()
    pulled = pull(team.link(), workspace.open_repository())
    assert pulled.kind == "merge" and (workspace.folder / "b").exists()
    push(team.link(), workspace.open_repository())
    team.colleague(tmp_path / "colleague", "c", "theirs\n")
    workspace.write("c", "ours\n")
    workspace.save()
    with pytest.raises(GitError) as caught:
        pull(team.link(), workspace.open_repository())
    assert reason(caught) is GitFailureReason.CONFLICTS and caught.value.failure.conflicts == ("c",)
    assert queries.status(workspace.open_repository()).underway == "merge"


def test_clone(team: Team, tmp_path: Path) -> None:
    workspace = team.workspace
    workspace.write("src/a.py", "print()\n")
    head = workspace.save()
    push(team.link(), workspace.open_repository())
    cloned = team.clone("projects/engine")
    assert (cloned.branch, cloned.commit) == ("main", head)
    folder = "projects/engine"
    assert workspace.plain("status", "--porcelain", folder=folder) == ""
    assert workspace.plain("rev-parse", "HEAD", folder=folder).strip() == head
    assert workspace.plain("remote", "get-url", "origin", folder=folder).strip() == team.server.url()
    confinement = Confinement(read_only=(f"{folder}/.git/config",), pinned=(f"{folder}/.git",))
    assert queries.status(workspace.open_repository(folder=folder, confinement=confinement)).upstream == "origin/main"
    with pytest.raises(GitError) as caught:
        team.clone("projects/engine")
    assert reason(caught) is GitFailureReason.EXISTS
    with pytest.raises(InvalidArgument, match="Shallow"):
        team.clone("shallow", depth=1)
    with pytest.raises(GitError) as caught:
        team.clone("other", branch="none")
    assert reason(caught) is GitFailureReason.UNKNOWN_REVISION and not (workspace.folder / "other").exists()
    with pytest.raises(PermissionDenied):
        team.clone("other", permits=denying("src"))
    assert not (workspace.folder / "other").exists()


def test_two_clones_that_know_different_things(team: Team, tmp_path: Path) -> None:
    """The server's repository serves both; what one of them lacks must not be taken for known."""
    workspace = team.workspace
    push(team.link(), workspace.open_repository())
    team.colleague(tmp_path / "colleague", "b", "theirs")
    team.clone("second")
    changes.checkout(workspace.open_repository(), "topic")
    workspace.write("c", "ours")
    mine = changes.commit(workspace.open_repository(), "ours", ["c"])
    push(team.link(), workspace.open_repository())
    assert team.there("rev-parse", "topic").strip() == mine.id
    confinement = Confinement(read_only=("second/.git/config",), pinned=("second/.git",))
    fetch(team.link(), workspace.open_repository(folder="second", confinement=confinement))
    assert workspace.plain("rev-parse", "origin/topic", folder="second").strip() == mine.id
    assert workspace.plain("fsck", "--strict", folder="second") == ""
    fetch(team.link(), workspace.open_repository())
    assert workspace.plain("fsck", "--strict") == ""


def test_rejected_forced_and_deleted(team: Team, tmp_path: Path) -> None:
    workspace = team.workspace
    changes.checkout(workspace.open_repository(), "topic")
    push(team.link(), workspace.open_repository())
    team.there("branch", "main", "topic")
    team.colleague(tmp_path / "colleague", "b", "theirs", branch="topic")
    mine = workspace.save()
    with pytest.raises(GitError) as caught:
        push(team.link(), workspace.open_repository())
    assert reason(caught) is GitFailureReason.BEHIND and "Pull" in caught.value.failure.text
    fetch(team.link(), workspace.open_repository())
    push(team.link(), workspace.open_repository(), force=True)
    assert team.there("rev-parse", "topic").strip() == mine
    assert push(team.link(), workspace.open_repository(), "topic", delete=True).refs[0].after is None
    assert "topic" not in team.there("branch")


def test_push_to_a_protected_branch_force_and_delete_are_questions_of_their_own() -> None:
    there = parse_remote("https://github.com/ada/engine.git")
    assert [one.verb for one in list_remote_effects("push", there, "topic")] == [RemoteVerb.PUSH]
    assert [one.verb for one in list_remote_effects("push", there, "main")] == [
        RemoteVerb.PUSH,
        RemoteVerb.PUSH_PROTECTED,
    ]
    assert [one.verb for one in list_remote_effects("push", there)] == [RemoteVerb.PUSH, RemoteVerb.PUSH_PROTECTED]
    asked = list_remote_effects("push", there, "release/1", force=True, delete=True)
    assert [one.verb for one in asked if one.verb.asks] == [
        RemoteVerb.PUSH_PROTECTED,
        RemoteVerb.PUSH_FORCE,
        RemoteVerb.PUSH_DELETE,
    ]
    assert [one.verb for one in list_remote_effects("fetch", there)] == [RemoteVerb.FETCH]


@pytest.mark.parametrize(
    "url",
    [
        *("http://github.com/a/b", "git://h/a", "ssh://h/a", "git@h:a/b", "file:///etc", "/etc", "ext::sh -c id", ""),
        *("https://user:pw@h/a", "https://u@h/a", "https://h", "https:///a", "https://h/a?x", "https://h/a#x"),
        *("https://h/../a", "https://h/a b", "https://h/a\nb", "-uhttps://h/a", "https://h:0/a", "https://h/a'"),
    ],
)
def test_an_address_that_is_not_taken(url: str) -> None:
    with pytest.raises(InvalidArgument):
        parse_remote(url)


def test_http_is_for_this_machine_only() -> None:
    assert parse_remote("http://127.0.0.1:8/a/b", allow_http=True).origin == "http://127.0.0.1:8"
    with pytest.raises(InvalidArgument):
        parse_remote("http://10.0.0.1/a/b", allow_http=True)


# -- the credential


def test_a_revoked_token_is_replaced_once_and_then_said(team: Team) -> None:
    push(team.link(), team.workspace.open_repository())
    team.server.tokens.clear()
    fetch(team.link(), team.workspace.open_repository())
    assert team.server.given == 2
    team.server.tokens.clear()
    team.server.issue = lambda: "ghs_no" + "x" * 30  # type: ignore[method-assign]
    with pytest.raises(GitError) as caught:
        fetch(team.link(), team.workspace.open_repository())
    assert reason(caught) is GitFailureReason.CREDENTIAL and "revoked" in caught.value.failure.text


def test_the_installation_is_looked_up_or_configured(team: Team) -> None:
    asked = team.server.asked
    asked.clear()
    assert team.make_app(installation_id=INSTALLATION).credential(team.remote()).secret.reveal() in team.server.tokens
    assert asked == [f"/app/installations/{INSTALLATION}/access_tokens"]
    asked.clear()
    team.make_app().credential(team.remote())
    assert asked == ["/repos/ada/engine/installation", f"/app/installations/{INSTALLATION}/access_tokens"]
    with pytest.raises(ProviderUnavailable, match="404"):
        team.make_app(installation_id=INSTALLATION + 1).credential(team.remote())


def test_a_token_is_renewed_five_minutes_before_its_end(team: Team) -> None:
    now = team.server.clock()
    there = team.remote()
    first = team.app.credential(there).secret.reveal()
    team.server.clock = lambda: now + 3600 - 301
    assert team.app.credential(there).secret.reveal() == first
    team.server.clock = lambda: now + 3600 - 299
    second = team.app.credential(there).secret.reveal()
    assert second != first
    # Both are good yet, so neither is told.
    *given, key = team.app.secrets
    assert given == [first, second] and key == team.server.app_key_file.read_text().strip()
    team.server.clock = lambda: now + 3601
    assert team.app.secrets[:-1] == (second,)


def test_a_wrong_key_is_told_without_the_statement(team: Team, tmp_path: Path) -> None:
    from tests.support.git_server import APP_ID, make_key
    from wap_kernel.git.remote.github_app import GitHubApp

    make_key(tmp_path / "other.pem")
    options = {"base_url": team.server.origin, "ca_file": str(team.server.certificate)}
    app = GitHubApp(APP_ID, str(tmp_path / "other.pem"), **options)  # type: ignore[arg-type]
    with pytest.raises(ProviderUnavailable, match="HTTP 401") as caught:
        app.credential(team.remote())
    assert "eyJ" not in caught.value.text
    (tmp_path / "other.pem").chmod(0o644)
    with pytest.raises(ProviderUnavailable, match="by others"):
        app.credential(team.remote())
    (tmp_path / "none.pem").touch(mode=0o600)
    with pytest.raises(ProviderUnavailable, match="RSA key"):
        GitHubApp(APP_ID, str(tmp_path / "none.pem"), **options).credential(team.remote())  # type: ignore[arg-type]


def test_a_token_file(team: Team, tmp_path: Path) -> None:
    token = team.server.issue()
    path = tmp_path / "token"
    path.touch(mode=0o600)
    path.write_text(f"{token}\n")
    source = TokenFile(str(path), origin=team.server.origin)
    push(team.link(source), team.workspace.open_repository())
    with pytest.raises(PermissionDenied):
        TokenFile(str(path), origin="https://github.com").credential(team.remote())
    with pytest.raises(GitError) as caught:
        fetch(team.link(NoCredential()), team.workspace.open_repository())
    assert reason(caught) is GitFailureReason.CREDENTIAL


def test_a_redirection_is_not_followed(team: Team, tmp_path: Path) -> None:
    other = GitServer(tmp_path / "other")
    try:
        team.server.redirect_to = other.origin
        with pytest.raises(GitError) as caught:
            push(team.link(), team.workspace.open_repository())
        assert reason(caught) is GitFailureReason.UNREACHABLE
        assert other.seen == [] and all(password is None for _, password in team.server.seen)
    finally:
        other.close()


def test_an_untrusted_certificate_gets_no_credential(team: Team) -> None:
    there = parse_remote(team.server.url())
    with pytest.raises(GitError) as caught:
        push(
            RemoteLink(ServerRepository(str(team.state), there, environment={}), team.app),
            team.workspace.open_repository(),
        )
    assert reason(caught) is GitFailureReason.UNREACHABLE and team.server.seen == []


# -- what is not supported, in clear words


def test_shallow_lfs_detached_and_missing(team: Team, tmp_path: Path) -> None:
    workspace = team.workspace
    push(team.link(), workspace.open_repository())
    workspace.write("assets/.gitattributes", "*.bin filter=lfs diff=lfs merge=lfs -text\n")
    workspace.save()
    with pytest.raises(GitError) as caught:
        push(team.link(), workspace.open_repository())
    assert reason(caught) is GitFailureReason.LFS
    plain(workspace.folder, "push", "--quiet", str(team.bare()), "HEAD:refs/heads/lfs")
    with pytest.raises(GitError) as caught:
        team.clone("copy", branch="lfs")
    assert reason(caught) is GitFailureReason.LFS and not (workspace.folder / "copy").exists()
    workspace.plain("switch", "--quiet", "--detach")
    with pytest.raises(GitError) as caught:
        push(team.link(), workspace.open_repository())
    assert reason(caught) is GitFailureReason.DETACHED
    with pytest.raises(GitError) as caught:
        push(team.link(), workspace.open_repository(), "none")
    assert reason(caught) is GitFailureReason.UNKNOWN_REVISION
    with pytest.raises(GitError) as caught:
        fetch(team.link(name="ada/none"), workspace.open_repository())
    assert reason(caught) is GitFailureReason.NO_REMOTE


def test_a_shallow_repository(team: Team) -> None:
    workspace = team.workspace
    push(team.link(), workspace.open_repository())
    workspace.save()
    plain(workspace.folder, "clone", "--quiet", "--depth=1", f"file://{workspace.folder}", "cut")
    confinement = Confinement(pinned=("cut/.git",))
    for action in (push, fetch, pull):
        with pytest.raises(GitError) as caught:
            action(team.link(), workspace.open_repository(folder="cut", confinement=confinement))  # type: ignore[operator]
        assert reason(caught) is GitFailureReason.SHALLOW
