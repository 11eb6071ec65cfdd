"""Find the server of a process, or none; the policy of a server is never bypassed."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.scripted_server import serving
from tests.support.server_processes import TOKEN, LiveServer, Place
from wap_kernel import connect
from wap_kernel.client.backend import Backend
from wap_kernel.client.discovery import find_backend
from wap_kernel.client.workspace_client import WorkspaceClient
from wap_kernel.model.errors import Code, Unauthenticated, WapError

Found = Callable[..., Backend]


@pytest.fixture
def found(place: Place, tmp_path: Path) -> Iterator[Found]:
    """Return `find_backend` with these variables, on a folder of its own; its backends are closed in the end."""
    opened: list[Backend] = []

    def found(**environ: str) -> Backend:
        opened.append(find_backend(environ, str(tmp_path)))
        return opened[-1]

    yield found
    for backend in opened:
        backend.close()


@pytest.fixture
def announced(place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Write the file of a server that started this process, and return the process id in its name."""
    runtime = tmp_path / "runtime"
    runtime.mkdir()
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(runtime))

    def announced(**info: Any) -> str:
        (runtime / "jpserver-4321.json").write_text(json.dumps({"pid": 4321, "token": TOKEN, **info}))
        return "4321"

    return announced


def test_the_server_that_is_named(server: LiveServer, found: Found) -> None:
    backend = found(WAP_URL=server.url, WAP_TOKEN=TOKEN, JPY_PARENT_PID="1")
    assert (backend.endpoint.kind, backend.endpoint.name) == ("server", server.url)
    assert "WAP_URL" in backend.endpoint.reason
    assert backend.call("getWorkspaceInfo", {})["root"] == str(server.root)


def test_the_server_that_started_this_kernel(server: LiveServer, found: Found) -> None:
    """By the file that it left itself."""
    backend = found(JPY_PARENT_PID=str(server.process.pid))
    assert (backend.endpoint.kind, backend.endpoint.reason) == ("server", "it started this kernel")
    assert backend.policy()["provider"] == "local"


def test_its_own_server_wins_over_all_others(server: LiveServer, found: Found) -> None:
    """Another one is running, whose root holds the folder; nobody looks for it."""
    backend = found(JPY_PARENT_PID=str(os.getpid()))
    assert backend.endpoint.kind == "embedded"


def test_the_server_of_a_hub(server: LiveServer, found: Found) -> None:
    hub = {"JUPYTERHUB_API_TOKEN": TOKEN, "JUPYTERHUB_SERVICE_PREFIX": server.base_url}
    for host in ("127.0.0.1", "0.0.0.0"):
        backend = found(JUPYTERHUB_SERVICE_URL=f"http://{host}:{server.port}{server.base_url}", **hub)
        assert (backend.endpoint.name, backend.endpoint.reason) == (server.url, "JupyterHub started it")
    assert found(**hub).endpoint.kind == "embedded"  # nobody says where it is


def test_under_a_hub_the_token_is_the_hub_s(server: LiveServer, found: Found, announced: Callable[..., str]) -> None:
    pid = announced(url=server.url, base_url="/", token="")
    backend = found(JPY_PARENT_PID=pid, JUPYTERHUB_API_TOKEN=TOKEN, JUPYTERHUB_SERVICE_PREFIX="/")
    assert backend.policy()["provider"] == "local"


def test_without_a_server_it_is_this_folder(found: Found, tmp_path: Path) -> None:
    for environ in ({}, {"JPY_PARENT_PID": "1"}, {"JPY_PARENT_PID": "../../x"}, {"WAP_URL": ""}):
        backend = found(**environ)
        assert (backend.endpoint.kind, backend.endpoint.name) == ("embedded", str(tmp_path))
        assert "no Jupyter server" in backend.endpoint.reason
        backend.close()


PID_FILE = "jpserver-1.json is not there, so process 1, which started this one, is no server of yours"
TRIED: list[tuple[dict[str, str], list[str]]] = [
    ({}, ["WAP_URL is not set", "JPY_PARENT_PID is not set", "JUPYTERHUB_SERVICE_PREFIX are not set"]),
    ({"JPY_PARENT_PID": "1"}, ["WAP_URL is not set", PID_FILE, "no JupyterHub started it"]),
    ({"JPY_PARENT_PID": "../x"}, ["WAP_URL", "JPY_PARENT_PID is not the number of a process", "JupyterHub"]),
    (
        {"JUPYTERHUB_SERVICE_URL": "http://127.0.0.1:9/", "JUPYTERHUB_SERVICE_PREFIX": "/"},
        ["WAP_URL", "JPY_PARENT_PID", "JUPYTERHUB_API_TOKEN is not set"],
    ),
]


@pytest.mark.parametrize(("environ", "tried"), TRIED, ids=["nothing", "pid", "no pid", "half a hub"])
def test_without_a_server_it_is_said_what_was_tried(found: Found, environ: dict[str, str], tried: list[str]) -> None:
    backend = found(**environ)
    assert len(backend.endpoint.tried) == len(tried)
    assert all(part in told for part, told in zip(tried, backend.endpoint.tried, strict=True)), backend.endpoint.tried
    shown = repr(WorkspaceClient(backend).overview())
    assert all(f"{told}." in shown for told in backend.endpoint.tried)
    assert "set WAP_URL and WAP_TOKEN" in shown


def test_the_file_that_was_looked_for_is_named_with_its_folder(found: Found) -> None:
    told = found(JPY_PARENT_PID="1").endpoint.tried[1]
    assert told.startswith(os.path.join(os.environ["JUPYTER_RUNTIME_DIR"], "jpserver-1.json"))


@pytest.mark.parametrize(
    ("environ", "folder"),
    [
        ({"JUPYTER_RUNTIME_DIR": "/run/jupyter"}, "/run/jupyter"),
        ({"JUPYTER_DATA_DIR": "/data"}, "/data/runtime"),
        ({"XDG_DATA_HOME": "/xdg"}, "/xdg/jupyter/runtime"),
    ],
    ids=str,
)
def test_the_file_is_looked_for_where_jupyter_keeps_it(
    found: Found, monkeypatch: pytest.MonkeyPatch, environ: dict[str, str], folder: str
) -> None:
    for name in ("JUPYTER_RUNTIME_DIR", "JUPYTER_DATA_DIR", "JUPYTER_PLATFORM_DIRS"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    assert found(JPY_PARENT_PID="1").endpoint.tried[1].startswith(f"{folder}/jpserver-1.json is not there")


def test_a_server_that_has_wap_and_whose_file_is_gone_is_not_passed_over(
    found: Found, announced: Callable[..., str]
) -> None:
    with pytest.raises(WapError, match="is gone"):
        found(JPY_PARENT_PID="4321", WAP_SERVER_PID="4321")
    assert found(JPY_PARENT_PID="4321", WAP_SERVER_PID="99").endpoint.kind == "embedded", "of another server's child"


def test_the_kernel_for_classes_does_not_do_without_its_server(announced: Callable[..., str], tmp_path: Path) -> None:
    """Whose policy may just have failed to load."""
    with serving(lambda handler: handler.say(404, b"<html>")) as plain, pytest.raises(WapError, match="404"):
        find_backend({**os.environ, "JPY_PARENT_PID": announced(url=plain.url)}, str(tmp_path), confined_only=True)


def test_a_server_with_a_password_and_no_token_is_explained(found: Found, announced: Callable[..., str]) -> None:
    said = b'{"error": "Not authenticated. Send a header.", "code": "UNAUTHENTICATED"}'
    with serving(lambda handler: handler.say(401, said)) as guarded:
        with pytest.raises(Unauthenticated, match="a password and no token") as refused:
            found(JPY_PARENT_PID=announced(url=guarded.url, token=""))
        assert "JUPYTER_TOKEN=... jupyter lab" in str(refused.value.hint) and "WAP_TOKEN" in str(refused.value.hint)
        with pytest.raises(Unauthenticated, match="Not authenticated"):
            found(JPY_PARENT_PID=announced(url=guarded.url, token="wrong"))
        with pytest.raises(Unauthenticated, match="Not authenticated"):
            found(WAP_URL=guarded.url)


def test_a_server_without_wap_is_said_to_be_one(found: Found, announced: Callable[..., str]) -> None:
    with serving(lambda handler: handler.say(404, b"<html>")) as plain:
        backend = found(JPY_PARENT_PID=announced(url=plain.url))
        assert backend.endpoint.kind == "embedded"
        assert plain.url in backend.endpoint.reason and "does not have wap" in backend.endpoint.reason
        assert f"{plain.url} answers, but has no wap" in backend.endpoint.tried[-1]
        with pytest.raises(WapError, match="404") as refused:
            found(WAP_URL=plain.url)
    assert "WAP_URL names it" in refused.value.text


STRICT: dict[str, tuple[int, bytes, Code]] = {
    "refuses": (403, b'{"error": "No.", "code": "PERMISSION_DENIED"}', Code.PERMISSION_DENIED),
    "does not know the token": (403, b"<html>", Code.UNAUTHENTICATED),
    "has no workspace": (503, b'{"error": "None.", "code": "PROVIDER_UNAVAILABLE"}', Code.PROVIDER_UNAVAILABLE),
    "sends to a login": (302, b"", Code.PROVIDER_UNAVAILABLE),
    "fails": (500, b"", Code.PROVIDER_UNAVAILABLE),
    "answers anything": (200, b"{}", Code.PROVIDER_UNAVAILABLE),
}


@pytest.mark.parametrize(("status", "body", "code"), STRICT.values(), ids=STRICT.keys())
def test_a_server_that_refuses_is_never_passed_over(
    found: Found, announced: Callable[..., str], status: int, body: bytes, code: Code
) -> None:
    with serving(lambda handler: handler.say(status, body)) as strict:
        port = strict.port
        for environ in (
            {"WAP_URL": strict.url, "WAP_TOKEN": "secret"},
            {"JPY_PARENT_PID": announced(url=strict.url, token="secret")},
            {
                "JUPYTERHUB_API_TOKEN": "secret",
                "JUPYTERHUB_SERVICE_PREFIX": "/base/",
                "JUPYTERHUB_SERVICE_URL": f"http://127.0.0.1:{port}",
            },
        ):
            with pytest.raises(WapError) as refused:
                found(**environ)
            assert refused.value.code is code
            assert "This server was chosen because" in refused.value.text
            assert "secret" not in refused.value.text


def test_nor_is_one_that_does_not_answer(found: Found, announced: Callable[..., str]) -> None:
    for environ in ({"WAP_URL": "http://127.0.0.1:9/"}, {"JPY_PARENT_PID": announced(url="http://127.0.0.1:9/")}):
        with pytest.raises(WapError, match="does not answer"):
            found(**environ)


@pytest.mark.parametrize("text", ["", "{", "[]", "[" * 100_000, '{"pid": 1}', '{"url": "http://h/", "sock": "/run/x"}'])
def test_nor_is_one_whose_file_makes_no_sense(found: Found, announced: Callable[..., str], text: str) -> None:
    pid = announced()
    Path(os.environ["JUPYTER_RUNTIME_DIR"], f"jpserver-{pid}.json").write_text(text)
    with pytest.raises(WapError, match="server that started this kernel"):
        found(JPY_PARENT_PID=pid)


def test_connect_looks_at_the_environment(server: LiveServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WAP_URL", server.url)
    monkeypatch.setenv("WAP_TOKEN", TOKEN)
    client = connect()
    assert client.endpoint.kind == "server"
    client.close()
    client = connect(".")
    assert (client.endpoint.kind, client.overview().data["workspace"]["root"]) == ("embedded", str(tmp_path))
    client.close()


def test_a_server_without_a_token(tmp_path: Path) -> None:
    """Jupyter then guards what changes something against requests that a browser was made to send."""
    (tmp_path / "place").mkdir()
    open_place = Place(tmp_path / "place")
    config = open_place.folder / "config" / "jupyter_server_config.py"
    config.write_text(config.read_text() + "c.IdentityProvider.token = ''\n")
    with open_place.server() as server:
        client = connect(url=server.url)
        assert client.write("a.txt", "x").ok
        assert client.read("a.txt").text == "x"
        client.close()
