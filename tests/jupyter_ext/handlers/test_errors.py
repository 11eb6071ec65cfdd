"""Every answer that is not a success has the same form, whoever raised it: routing, methods, JSON, arguments, bugs."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from tornado import web

from jupyter_ext.handlers import errors
from tests.support.time_limits import growing
from wap_kernel.model.caller import Caller
from wap_kernel.model.errors import Code, FileNotFound, InternalError, TimedOut, WapError


def test_every_code_has_a_status() -> None:
    assert set(errors.STATUS) == set(Code)


@pytest.mark.parametrize(
    ("raised", "code"),
    [
        (FileNotFound("gone"), Code.FILE_NOT_FOUND),
        (web.HTTPError(400, "bad"), Code.INVALID_ARGUMENT),
        (web.HTTPError(403), Code.PERMISSION_DENIED),
        (web.HTTPError(404), Code.NOT_FOUND),
        (web.HTTPError(405), Code.METHOD_NOT_ALLOWED),
        (web.HTTPError(413), Code.SIZE_LIMIT_EXCEEDED),
        (web.HTTPError(502, "upstream said: secret"), Code.INTERNAL_ERROR),
        (ValueError("secret"), Code.INTERNAL_ERROR),
        (None, Code.INTERNAL_ERROR),
    ],
)
def test_what_ends_a_request_becomes_one_error(raised: BaseException | None, code: Code) -> None:
    error = errors.from_exception(raised)
    assert error.code is code
    assert "secret" not in error.text


def test_the_body_of_an_error() -> None:
    bare = json.loads(errors.encode(FileNotFound("No such file.")))
    assert bare == {"error": "No such file.", "code": "FILE_NOT_FOUND"}
    rich = json.loads(errors.encode(TimedOut("Too slow.", hint="Do less.", stdout="a\udcff", timeoutMs=1.5)))
    assert rich == {
        "error": "Too slow. Do less.",
        "code": "TIMEOUT",
        "details": {"stdout": "a\udcff", "timeoutMs": 1.5},
    }


MALFORMED = {
    "not JSON": "{",
    "a comment": '{"path": "a" /* b */}',
    "not an object": '["path"]',
    "a number": "1",
    "null": "null",
    "wrong type": '{"path": 1}',
    "missing field": '{"startLine": 1}',
    "unknown field": '{"path": "a", "colour": "red"}',
    "a string for a number": '{"path": "a", "startLine": "1"}',
    "a float for a number": '{"path": "a", "startLine": 1.5}',
    "NaN": '{"path": "a", "startLine": NaN}',
    "trailing text": '{"path": "a"} {}',
    "a lone surrogate": '{"path": "\\ud800"}',
    "not UTF-8": b'{"path": "\xff"}',
    "UTF-16": '{"path": "a"}'.encode("utf-16"),
    "deeply nested": "[" * 100_000,
    "form fields": "path=a",
}


async def test_malformed_bodies_are_invalid_arguments(fetch: Any) -> None:
    answers = {}
    for name, body in MALFORMED.items():
        answer = await fetch("wap/api/readFile", method="POST", body=body)
        answers[name] = (answer.status, answer.code)
    assert answers == dict.fromkeys(MALFORMED, (400, "INVALID_ARGUMENT"))


async def test_an_unknown_field_is_named_with_the_near_one(call: Any) -> None:
    answer = await call("readFile", path="a", startline=1)
    assert "startline" in answer.body["error"]
    assert "startLine" in answer.body["error"]


async def test_an_empty_body_is_an_empty_object(fetch: Any) -> None:
    assert (await fetch("wap/api/getWorkspaceInfo", method="POST", body="")).status == 200
    assert (await fetch("wap/api/readFile", method="POST", body="")).code == "INVALID_ARGUMENT"


@pytest.mark.parametrize(
    "path",
    ["wap", "wap/", "wap/nothing", "wap/api", "wap/api/", "wap/api/readfile", "wap/api/readFile/", "wap/api/a.b"],
)
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
async def test_unknown_addresses(fetch: Any, path: str, method: str) -> None:
    answer = await fetch(path, method=method)
    expected = (405, "METHOD_NOT_ALLOWED") if path == "wap/api/readfile" and method != "POST" else (404, "NOT_FOUND")
    assert (answer.status, answer.code) == expected


async def test_an_unknown_tool_names_the_known_ones(call: Any) -> None:
    answer = await call("formatDisk")
    assert answer.code == "NOT_FOUND"
    assert "readFile" in answer.body["error"]


@pytest.mark.parametrize(
    ("path", "methods", "allow"),
    [
        ("wap/api/readFile", ["GET", "PUT", "PATCH", "DELETE", "PROPFIND"], "POST, OPTIONS"),
        ("wap/tools", ["POST", "PUT", "PATCH", "DELETE", "PROPFIND"], "GET, HEAD, OPTIONS"),
        ("wap/openapi.json", ["POST", "PUT", "PATCH", "DELETE", "PROPFIND"], "GET, HEAD, OPTIONS"),
    ],
)
async def test_a_wrong_method_is_told_the_right_ones(fetch: Any, path: str, methods: list[str], allow: str) -> None:
    for method in methods:
        answer = await fetch(path, method=method, allow_nonstandard_methods=True)
        assert (answer.status, answer.code, answer.headers["Allow"]) == (405, "METHOD_NOT_ALLOWED", allow), method


async def test_head_answers_like_get_without_a_body(jp_fetch: Any) -> None:
    get = await jp_fetch("wap/tools")
    head = await jp_fetch("wap/tools", method="HEAD")
    assert head.body == b""
    assert head.headers["Content-Length"] == str(len(get.body))


async def test_head_of_a_tool_is_not_allowed(jp_fetch: Any) -> None:
    response = await jp_fetch("wap/api/readFile", method="HEAD", raise_error=False)
    assert response.code == 405


async def test_options_tells_browsers_what_they_may_send(jp_fetch: Any) -> None:
    response = await jp_fetch(
        "wap/api/readFile", method="OPTIONS", headers={"Authorization": "", "Origin": "http://other.example"}
    )
    assert response.code == 204
    assert response.headers["Access-Control-Allow-Methods"] == response.headers["Allow"] == "POST, OPTIONS"
    allowed = response.headers["Access-Control-Allow-Headers"].lower()
    assert {"authorization", "content-type", "x-wap-agent", "x-wap-session"} <= set(allowed.split(", "))


SECRET = "what-the-file-holds"


async def test_a_bug_says_nothing_of_the_host_and_logs_no_arguments(
    call: Any, extension: Any, jp_root_dir: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(operation: Any, caller: Any, encode: Any, context: Any) -> None:
        try:
            raise OSError(2, "No such file", str(jp_root_dir / SECRET))
        except OSError as error:
            raise ValueError(f"cannot handle {operation!r}") from error

    monkeypatch.setattr(extension.workspace, "answer", broken)
    with caplog.at_level(logging.DEBUG):
        answer = await call("writeFile", path=SECRET, content=SECRET)
    assert (answer.status, answer.code) == (500, "INTERNAL_ERROR")
    assert set(answer.body) == {"error", "code"}
    assert str(jp_root_dir) not in answer.body["error"]
    assert SECRET not in answer.body["error"]
    assert SECRET not in caplog.text
    assert "ValueError" in caplog.text
    assert "OSError" in caplog.text
    assert "in broken" in caplog.text


@pytest.mark.parametrize("error", [InternalError("Odd."), TimedOut("Slow.")])
async def test_only_bugs_are_logged_as_errors(
    call: Any, extension: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: WapError
) -> None:
    async def fail(operation: Any, caller: Any, encode: Any, context: Any) -> None:
        raise error

    monkeypatch.setattr(extension.workspace, "answer", fail)
    answer = await call("getWorkspaceInfo")
    assert answer.code == error.code.value
    assert ("Error in POST" in caplog.text) == isinstance(error, InternalError)


async def test_a_query_that_is_not_utf_8_still_gets_an_answer(
    jp_fetch: Any, http_server_client: Any, jp_base_url: str, jp_auth_header: dict[str, str]
) -> None:
    for query in ("no_track_activity=%ff", "format=%ff", "dialect=%ff", "%ff=%ff"):
        url = f"{jp_base_url}wap/tools?{query}"
        response = await http_server_client.fetch(url, headers=jp_auth_header, raise_error=False, request_timeout=60)
        assert response.code == (400 if query.startswith(("format", "dialect")) else 200), query


async def test_the_caller_is_jupyters_user_and_what_the_headers_claim(
    fetch: Any, extension: Any, jp_serverapp: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    callers: list[Caller] = []
    answer = extension.workspace.answer

    async def record(operation: Any, caller: Caller, encode: Any, context: Any) -> Any:
        callers.append(caller)
        return await answer(operation, caller, encode)

    monkeypatch.setattr(extension.workspace, "answer", record)
    claims = {"X-Wap-Agent": "Zo\u00eb\u202e\u0085 [bot]", "X-Wap-Session": "s" * 500}
    headers = {name: value.encode().decode("latin-1") for name, value in claims.items()}
    await fetch("wap/api/getWorkspaceInfo", method="POST", body="{}", headers=headers)
    await fetch("wap/api/getWorkspaceInfo", method="POST", body="{}")
    assert [(caller.agent, caller.session) for caller in callers] == [("Zoë [bot]", "s" * 200), (None, None)]
    assert all(caller.user for caller in callers)


async def test_a_timeout_brings_the_beginning_and_the_end_of_its_output_along(call: Any) -> None:
    command = "echo first; yes | head -c 200000; echo last; sleep 60"
    for seconds in growing(0.5):
        answer = await call("executeCommand", command=command, timeout=round(seconds * 1000))
        if answer.body["details"]["stdout"].endswith("last\n"):
            break
    assert (answer.status, answer.code) == (422, "TIMEOUT")
    details = answer.body["details"]
    assert details["stdout"].startswith("first\ny\n") and details["stdout"].endswith("y\nlast\n")
    assert (details["stdoutBytes"], details["isOutputTruncated"]) == (200_011, True)
    assert len(details["stdout"]) <= 64 * 1024


async def test_activity_counts_unless_the_caller_says_otherwise(jp_fetch: Any, jp_serverapp: Any) -> None:
    settings = jp_serverapp.web_app.settings
    settings.pop("api_last_activity", None)
    await jp_fetch("wap/tools", params={"no_track_activity": "1"})
    await jp_fetch("wap/tools", headers={"Authorization": "token wrong"}, raise_error=False)
    assert "api_last_activity" not in settings
    await jp_fetch("wap/tools")
    assert settings["api_last_activity"].tzinfo is not None
