"""Register what Jupyter's contents manager writes with the workspace's save gate.

The methods are replaced on the instance, which the server's handlers, jupyter-collaboration and
jupyter-server-documents call. `new`, `copy`, `rename` and `delete` end in the methods below. A manager that derives
from a file manager may write more files in one save, as jupytext does; each passes `_save_file` or `_save_notebook`.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import wraps
from typing import TYPE_CHECKING, Any

from jupyter_server.services.contents.filemanager import FileContentsManager
from tornado.web import HTTPError

from wap_kernel.model.errors import Conflict

if TYPE_CHECKING:
    from jupyter_server.services.contents.manager import ContentsManager

    from wap_kernel.files.save_gate import SaveGate

API_PATHS: dict[str, dict[str, int]] = {
    "save": {"path": 1},
    "rename_file": {"old_path": 0, "new_path": 1},
    "delete_file": {"path": 0},
    "restore_checkpoint": {"path": 1},
    "_copy_dir": {"to_path": 3},
}
"""Methods that write, with the names and positions of the parameters that are API paths."""
OS_PATHS: dict[str, dict[str, int]] = {
    name: {"os_path": 0} for name in ("_save_file", "_save_large_file", "_save_notebook", "_save_directory")
}
"""Methods that write, with the parameters that are paths of the host."""
_RETRY_SECONDS = 0.001


def attach_save_gate(manager: ContentsManager, gate: SaveGate) -> Callable[[], None]:
    """Let every save of `manager` register with `gate`; return the function that detaches the gate.

    A manager that keeps its contents elsewhere than in a local folder stays as it is.
    """
    saves = ContentsSaves(manager, gate) if isinstance(manager, FileContentsManager) else None
    return saves.detach if saves is not None else lambda: None


class ContentsSaves:
    """The methods of one contents manager that are replaced while a gate is attached."""

    def __init__(self, manager: FileContentsManager, gate: SaveGate) -> None:
        self._manager: Any = manager
        self._gate = gate
        self._is_attached = True
        self._replaced: dict[str, tuple[Any, Any]] = {}
        for name, parameters in {**API_PATHS, **OS_PATHS}.items():
            if hasattr(manager, name):
                method = self._wrap(getattr(manager, name), parameters, is_api=name in API_PATHS)
                self._replaced[name] = method, vars(manager).get(name)
                setattr(manager, name, method)

    def detach(self) -> None:
        """Give the manager its own methods back. Ours register nothing any more, should another program call them."""
        self._is_attached = False
        for name, (ours, before) in self._replaced.items():
            if vars(self._manager).get(name) is ours:
                if before is None:
                    delattr(self._manager, name)
                else:
                    setattr(self._manager, name, before)

    def _wrap(self, method: Callable[..., Any], parameters: dict[str, int], *, is_api: bool) -> Callable[..., Any]:
        def find_paths(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[str]:
            found = [kwargs.get(name, args[at] if len(args) > at else None) for name, at in parameters.items()]
            return [path for path in map(self._to_os_path if is_api else _to_text, found) if path is not None]

        async def finish(result: Any, paths: list[str]) -> Any:
            with self._saving(self._begin(paths)):
                return await result

        @wraps(method)
        def save(*args: Any, **kwargs: Any) -> Any:
            paths = find_paths(args, kwargs)
            with self._saving(self._begin(paths)):
                result = method(*args, **kwargs)
            return finish(result, paths) if inspect.isawaitable(result) else result

        @wraps(method)
        async def save_async(*args: Any, **kwargs: Any) -> Any:
            with self._saving(await self._begin_async(find_paths(args, kwargs))):
                return await method(*args, **kwargs)

        return save_async if inspect.iscoroutinefunction(method) else save

    @contextmanager
    def _saving(self, ticket: int) -> Iterator[None]:
        try:
            yield
        finally:
            self._gate.end_save(ticket)

    def _begin(self, paths: list[str], timeout: float | None = None) -> int:
        try:
            return self._gate.begin_save(*(paths if self._is_attached else ()), timeout=timeout)
        except Conflict as error:
            raise HTTPError(503, error.text) from None

    async def _begin_async(self, paths: list[str]) -> int:
        """Register a save like `_begin`, but let the event loop go on while a critical section lasts."""
        deadline = time.monotonic() + self._gate.timeout
        while True:
            try:
                return self._begin(paths, timeout=0)
            except HTTPError:
                if time.monotonic() >= deadline:
                    raise
            await asyncio.sleep(_RETRY_SECONDS)

    def _to_os_path(self, path: Any) -> str | None:
        """Return the path of the host; None where the manager refuses `path`, as the method itself will."""
        with suppress(HTTPError, ValueError, TypeError, AttributeError):
            return _to_text(self._manager._get_os_path(path.strip("/")))
        return None


def _to_text(path: Any) -> str | None:
    return path if isinstance(path, str) and "\0" not in path else None
