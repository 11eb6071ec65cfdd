"""Serve the workspace client from a Jupyter server that has the extension, over its REST routes."""

from __future__ import annotations

import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, cast
from urllib.parse import quote, urlencode

from wap_kernel.client.backend import Data, Decision, Endpoint, RunUpdate
from wap_kernel.client.claims import Claims
from wap_kernel.client.http.http_client import (
    ANSWER_SECONDS,
    CONNECTION_ERRORS,
    KEY_HEADER,
    ExtensionMissing,
    HttpClient,
    Stream,
    answer_too_large,
)
from wap_kernel.client.http.sse import SILENCE_SECONDS, EventTooLarge, parse_events, read_lines
from wap_kernel.client.results import ACTIVE_STATUSES
from wap_kernel.model.errors import NotFound, ProviderUnavailable
from wap_kernel.model.limits import MAX_ANSWER_BYTES

ATTEMPTS = 5
"""Attempts in a row in which a stream may break without bringing an update."""
PAUSE_SECONDS = 0.2
GIT_SECONDS = 660.0
"""Seconds to wait for git: a transfer may take ten minutes."""
_RUN_FIELDS = ("runId", "status", "events")


class ServerBackend:
    """A server at `url`, its base URL.

    With `is_local`, the server runs on this machine, whatever its address looks like.
    """

    def __init__(self, url: str, token: str, endpoint: Endpoint | None = None, *, is_local: bool | None = None) -> None:
        self._http = HttpClient.open(url, token, bypasses_proxy=is_local, headers=Claims.of_process().to_headers())
        self._endpoint = endpoint or Endpoint("server", self.url, "it was named")

    @property
    def url(self) -> str:
        return str(self._http.address)

    @property
    def endpoint(self) -> Endpoint:
        return self._endpoint

    def require(self) -> None:
        """Raise unless the server answers, accepts the token and has wap; ExtensionMissing without wap."""
        try:
            self._http.request("GET", "wap/api")
        except ExtensionMissing:
            raise
        except NotFound:  # an error of wap itself: the route does not exist, but wap answered
            return
        raise self._unexpected("wap is not there")

    def call(self, tool: str, parameters: Mapping[str, Any]) -> Data:
        command = parameters.get("timeout")
        seconds = ANSWER_SECONDS + (command / 1000 if isinstance(command, int | float) else 0)
        return self._request("POST", f"wap/api/{quote(tool, safe='')}", parameters, seconds=seconds)

    def call_workspace(self, tool: str, parameters: Mapping[str, Any]) -> Data:
        seconds = GIT_SECONDS if tool == "git" else ANSWER_SECONDS
        return self._request("POST", f"wap/workspace/{quote(tool, safe='')}", parameters, seconds=seconds)

    def start(self, message: Mapping[str, Any], key: str) -> Data:
        return self._request("POST", "wap/runs?wait=0", message, _RUN_FIELDS, headers={KEY_HEADER: key})

    def follow(self, run_id: str, after: str = "", seconds: float | None = None) -> Generator[RunUpdate, None, None]:
        """Yield the updates of a run, and resume after a break: a proxy that cuts long answers loses nothing."""
        deadline = None if seconds is None else time.monotonic() + seconds
        last, failures, reason = after, 0, ""
        while failures < ATTEMPTS:
            before = last
            try:
                with self._stream(run_id, last, deadline) as (response, sock):
                    if response.status == 204:  # the run is over, and every update was received
                        return
                    for update in parse_events(
                        read_lines(deadline, response, sock, MAX_ANSWER_BYTES), MAX_ANSWER_BYTES
                    ):
                        last = update.id or last
                        yield update
                        if update.name == "status" and update.data.get("status") not in ACTIVE_STATUSES:
                            return
            except EventTooLarge:
                raise answer_too_large(self._http.address) from None
            except CONNECTION_ERRORS as error:
                reason = f": {error}" if str(error) else ""
            if deadline is not None and time.monotonic() >= deadline:
                return
            failures = failures + 1 if last == before else 1
            time.sleep(PAUSE_SECONDS * failures)
        raise ProviderUnavailable(
            f"The events of run {run_id} broke off{reason}.", hint="The run may still be going on: show it again."
        )

    def get(self, run_id: str) -> Data:
        return self._request("GET", _run_path(run_id), has=_RUN_FIELDS)

    def runs(self, status: str | None, limit: int) -> Data:
        return self._request("GET", _add_query("wap/runs", status=status, limit=limit), has=("runs",))

    def decide(self, run_id: str, approval_id: str, decision: Decision, reason: str | None, *, remember: bool) -> Data:
        body: Data = {"approvalId": approval_id, "decision": decision}
        if reason is not None:
            body["reason"] = reason
        if remember:
            body["remember"] = True
        return self._request("POST", f"{_run_path(run_id)}/decision?wait=0", body, _RUN_FIELDS)

    def cancel(self, run_id: str) -> Data:
        return self._request("POST", f"{_run_path(run_id)}/cancel", {}, _RUN_FIELDS)

    def revert(self, run_id: str, *, force: bool) -> Data:
        return self._request("POST", f"{_run_path(run_id)}/revert?wait=0", {"force": force}, _RUN_FIELDS)

    def apply(self, run_id: str, paths: Sequence[str] | None) -> Data:
        body = {} if paths is None else {"paths": list(paths)}
        return self._request("POST", f"{_run_path(run_id)}/apply?wait=0", body, _RUN_FIELDS)

    def changes(self, run_id: str) -> Data:
        return self._request("GET", f"{_run_path(run_id)}/changes")

    def output(self, run_id: str, operation_id: str, stream: str, offset: int, limit: int) -> Data:
        path = f"{_run_path(run_id)}/output/{quote(operation_id, safe='')}"
        return self._request("GET", _add_query(path, stream=stream, offset=offset, limit=limit))

    def policy(self) -> Data:
        return self._request("GET", "wap/policy", has=("layers",))

    def check(self, message: Mapping[str, Any]) -> Data:
        return self._request("POST", "wap/policy/check", message, ("verdicts",))

    def audit(self, limit: int, tool: str | None, outcome: str | None) -> Data:
        return self._request("GET", _add_query("wap/audit", limit=limit, tool=tool, outcome=outcome), has=("records",))

    def grants(self) -> Data:
        return self._request("GET", "wap/grants", has=("grants",))

    def revoke(self, grant_id: str) -> None:
        self._http.request("DELETE", f"wap/grants/{quote(grant_id, safe='')}")

    def close(self) -> None:
        self._http.close()

    def _request(self, method: str, path: str, body: object = None, has: tuple[str, ...] = (), **options: Any) -> Data:
        answer = self._http.request(method, path, body, **options)
        if not isinstance(answer, dict):
            raise self._unexpected("the answer is not an object")
        if missing := [name for name in has if name not in answer]:
            raise self._unexpected(f"{missing[0]} is missing in the answer")
        return cast(Data, answer)

    def _unexpected(self, why: str) -> ProviderUnavailable:
        return ProviderUnavailable(
            f"The server at {self.url} did not answer as expected: {why}.",
            hint="Is it a Jupyter server with wap enabled, and does the address have its base URL?",
        )

    def _stream(self, run_id: str, last: str, deadline: float | None) -> AbstractContextManager[Stream]:
        headers = {"Last-Event-ID": last} if last else {}
        seconds = SILENCE_SECONDS if deadline is None else min(SILENCE_SECONDS, max(0.01, deadline - time.monotonic()))
        return self._http.stream(f"{_run_path(run_id)}/stream", headers, seconds)


def _run_path(run_id: str) -> str:
    return f"wap/runs/{quote(run_id, safe='')}"


def _add_query(path: str, **query: str | int | None) -> str:
    parts = {name: value for name, value in query.items() if value is not None}
    return f"{path}?{urlencode(parts)}" if parts else path
