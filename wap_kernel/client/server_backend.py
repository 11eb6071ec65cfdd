"""The hands' work on a Jupyter server that has the extension, over its REST routes."""

from __future__ import annotations

import time
from collections.abc import Generator, Mapping
from contextlib import AbstractContextManager
from typing import Any, cast
from urllib.parse import quote, urlencode

from wap_kernel.client.backend import Data, Decision, Place, Sent
from wap_kernel.client.http import ANSWER_SECONDS, BROKEN, KEY_HEADER, LARGEST_ANSWER, Absent, Http, Stream, too_large
from wap_kernel.client.results import UNDER_WAY
from wap_kernel.client.sse import SILENCE_SECONDS, TooLong, lines_until, parse
from wap_kernel.model.errors import NotFound, ProviderUnavailable

ATTEMPTS = 5
"""How often in a row a stream may break without having brought anything."""
PAUSE_SECONDS = 0.2
_RUN = ("runId", "status", "events")


class ServerBackend:
    """`url` has the server's base URL. `is_local`: it runs on this machine, whatever its address looks like."""

    def __init__(self, url: str, token: str, place: Place | None = None, *, is_local: bool | None = None) -> None:
        self._http = Http.at(url, token, is_direct=is_local)
        self._place = place or Place("server", self.url, "it was named")

    @property
    def url(self) -> str:
        return str(self._http.address)

    @property
    def place(self) -> Place:
        return self._place

    def require(self) -> None:
        """Raises unless the server is there, knows the token and has wap; `Absent` where wap alone is missing."""
        try:
            self._http.ask("GET", "wap/api")
        except Absent:
            raise
        except NotFound:  # in wap's own words: there is nothing at this address, but it was wap that looked
            return
        raise self._strange("nothing of wap is there")

    def call(self, tool: str, parameters: Mapping[str, Any]) -> Data:
        command = parameters.get("timeout")
        seconds = ANSWER_SECONDS + (command / 1000 if isinstance(command, int | float) else 0)
        return self._ask("POST", f"wap/api/{quote(tool, safe='')}", parameters, seconds=seconds)

    def start(self, message: Mapping[str, Any], key: str) -> Data:
        return self._ask("POST", "wap/runs?wait=0", message, _RUN, headers={KEY_HEADER: key})

    def follow(self, run_id: str, after: str = "", seconds: float | None = None) -> Generator[Sent, None, None]:
        """Taken up again where it breaks off, so that a proxy which cuts long answers loses nothing."""
        deadline = None if seconds is None else time.monotonic() + seconds
        last, failures, reason = after, 0, ""
        while failures < ATTEMPTS:
            before = last
            try:
                with self._stream(run_id, last, deadline) as (response, sock):
                    if response.status == 204:  # it is over, and all of it was seen
                        return
                    for sent in parse(lines_until(deadline, response, sock, LARGEST_ANSWER), LARGEST_ANSWER):
                        last = sent.id or last
                        yield sent
                        if sent.name == "status" and sent.data.get("status") not in UNDER_WAY:
                            return
            except TooLong:
                raise too_large(self._http.address) from None
            except BROKEN as error:
                reason = f": {error}" if str(error) else ""
            if deadline is not None and time.monotonic() >= deadline:
                return
            failures = failures + 1 if last == before else 1
            time.sleep(PAUSE_SECONDS * failures)
        raise ProviderUnavailable(
            f"The events of run {run_id} break off{reason}.", hint="The run itself may well go on."
        )

    def get(self, run_id: str) -> Data:
        return self._ask("GET", _run(run_id), has=_RUN)

    def runs(self, status: str | None, limit: int) -> Data:
        return self._ask("GET", _with("wap/runs", status=status, limit=limit), has=("runs",))

    def decide(self, run_id: str, approval_id: str, decision: Decision, reason: str | None, *, remember: bool) -> Data:
        body: Data = {"approvalId": approval_id, "decision": decision}
        if reason is not None:
            body["reason"] = reason
        if remember:
            body["remember"] = True
        return self._ask("POST", f"{_run(run_id)}/decision?wait=0", body, _RUN)

    def cancel(self, run_id: str) -> Data:
        return self._ask("POST", f"{_run(run_id)}/cancel", {}, _RUN)

    def revert(self, run_id: str, *, force: bool) -> Data:
        return self._ask("POST", f"{_run(run_id)}/revert?wait=0", {"force": force}, _RUN)

    def changes(self, run_id: str) -> Data:
        return self._ask("GET", f"{_run(run_id)}/changes")

    def output(self, run_id: str, operation_id: str, stream: str, offset: int, limit: int) -> Data:
        path = f"{_run(run_id)}/output/{quote(operation_id, safe='')}"
        return self._ask("GET", _with(path, stream=stream, offset=offset, limit=limit))

    def policy(self) -> Data:
        return self._ask("GET", "wap/policy", has=("layers",))

    def check(self, message: Mapping[str, Any]) -> Data:
        return self._ask("POST", "wap/policy/check", message, ("verdicts",))

    def audit(self, limit: int, tool: str | None, outcome: str | None) -> Data:
        return self._ask("GET", _with("wap/audit", limit=limit, tool=tool, outcome=outcome), has=("records",))

    def grants(self) -> Data:
        return self._ask("GET", "wap/grants", has=("grants",))

    def revoke(self, grant_id: str) -> None:
        self._http.ask("DELETE", f"wap/grants/{quote(grant_id, safe='')}")

    def close(self) -> None:
        self._http.close()

    def _ask(self, method: str, path: str, body: object = None, has: tuple[str, ...] = (), **options: Any) -> Data:
        answer = self._http.ask(method, path, body, **options)
        if not isinstance(answer, dict):
            raise self._strange("this is no object")
        if missing := [name for name in has if name not in answer]:
            raise self._strange(f"{missing[0]} is missing")
        return cast(Data, answer)

    def _strange(self, why: str) -> ProviderUnavailable:
        return ProviderUnavailable(
            f"The server at {self.url} does not answer as it should: {why}.",
            hint="Is it a Jupyter server with wap enabled, and does the address have its base URL?",
        )

    def _stream(self, run_id: str, last: str, deadline: float | None) -> AbstractContextManager[Stream]:
        headers = {"Last-Event-ID": last} if last else {}
        seconds = SILENCE_SECONDS if deadline is None else min(SILENCE_SECONDS, max(0.01, deadline - time.monotonic()))
        return self._http.stream(f"{_run(run_id)}/stream", headers, seconds)


def _run(run_id: str) -> str:
    return f"wap/runs/{quote(run_id, safe='')}"


def _with(path: str, **query: str | int | None) -> str:
    given = {name: value for name, value in query.items() if value is not None}
    return f"{path}?{urlencode(given)}" if given else path
