"""A reader of docs/clients.md: their own server, token and folder, and the document with these filled in."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.client_configurations import TOKEN
from tests.support.server_processes import Place


@dataclass(frozen=True)
class Desk:
    """A reader's own server, token and folder."""

    place: Place
    url: str
    token: str
    token_file: Path

    @property
    def environment(self) -> dict[str, str]:
        found = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
        return {**self.place.environment, "PATH": found, TOKEN: self.token}

    def filled(self, text: str) -> str:
        """What the document says to do: put your own address and your own paths."""
        own = {
            "http://localhost:8888/": self.url,
            "/home/me/token": str(self.token_file),
            "/home/me/project": str(self.place.root),
            "wap_...": self.token,
        }
        for theirs, mine in own.items():
            text = text.replace(theirs, mine)
        return text


@contextmanager
def open_desk(folder: Path) -> Iterator[Desk]:
    """Start a server on a folder with one file, and mint a token."""
    place = Place(folder)
    (place.root / "todo.txt").write_text("TODO: this\n")
    file = place.folder / "token"
    with place.server() as server:
        status, minted = server.request("POST", "wap/tokens", json.dumps({"name": "helper"}))
        assert status == 201, minted
        file.write_text(minted["token"] + "\n")
        file.chmod(0o600)
        yield Desk(place, server.url, minted["token"], file)
