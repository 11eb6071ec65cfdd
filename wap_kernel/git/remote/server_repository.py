"""Run git in a bare repository that the server owns, in the one process that knows the credential.

Nothing of the workspace reaches this repository but objects, out of a bundle; its config is written here. The
credential goes through a pipe that the process inherits: git calls the askpass program, which checks the origin and
reads the pipe. The credential is in no argument, variable, file or result.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from types import MappingProxyType
from typing import IO
from urllib.parse import urlsplit

from wap_kernel.git.failure_messages import parse_git_error
from wap_kernel.git.local import hardened_env
from wap_kernel.git.remote.credentials import Credential
from wap_kernel.model.command import CancelToken
from wap_kernel.model.errors import ProviderUnavailable, TimedOut
from wap_kernel.model.git.results import GitFailureReason, build_git_error
from wap_kernel.model.limits import (
    MAX_GIT_MESSAGE_BYTES,
    MAX_GIT_OUTPUT_BYTES,
    MAX_TRANSFERRED_FILE_BYTES,
    TRANSFER_LOCK_SECONDS,
)
from wap_kernel.policy.git_remotes import Remote
from wap_kernel.providers.process.environment import INHERITED_PROXIES
from wap_kernel.redaction.known_secrets import MASK
from wap_kernel.redaction.redactor import Redactor
from wap_kernel.state.file_lock import try_lock

TIMEOUT_SECONDS = 600.0
_POLL_SECONDS = 0.05
_LIMITED_GIT = 'ulimit -f "$0" && exec git "$@"'
_BLOCK = 512
_NOT_FOUND = 127
_QUARANTINE_PREFIX = "quarantine-"
PATH = "/usr/local/bin:/usr/bin:/bin"
_INHERITED = (*sorted(INHERITED_PROXIES), "NO_PROXY", "no_proxy", "SSL_CERT_FILE", "SSL_CERT_DIR")

ASKPASS = """\
#!/bin/sh
# Gives the credential to the one origin that it is for. It comes through a pipe; nothing of it is an argument.
[ "$1" = "Password for '$WAP_GIT_ASKED': " ] || exit 1
IFS= read -r secret < "/dev/fd/$WAP_GIT_PIPE" || exit 1
printf '%s\\n' "$secret"
"""
Variables = Mapping[str, str]
NO_VARIABLES: Variables = MappingProxyType({})


class ServerRepository:
    """The bare repository for one remote, in `state`, a folder of the server that no tool sees.

    One operation at a time locks it, across processes.
    """

    def __init__(
        self,
        state: str,
        remote: Remote,
        *,
        environment: Mapping[str, str] | None = None,
        timeout: float = TIMEOUT_SECONDS,
        lock_seconds: float = TRANSFER_LOCK_SECONDS,
        cancel: CancelToken | None = None,
    ) -> None:
        server = os.environ if environment is None else environment
        self.remote = remote
        self._folder = Path(state) / hashlib.sha256(remote.url.encode()).hexdigest()[:32]
        self.bare = str(self._folder / "repository.git")
        self._timeout = timeout
        self._lock_seconds = lock_seconds
        self._cancel = cancel or CancelToken()
        self._inherited = {name: server[name] for name in _INHERITED if "@" not in server.get(name, "@")}

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Lock the repository for the block, and create it if it does not exist."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with open(self._folder / "lock", "w", encoding="ascii") as lock:
            self._take_lock(lock)
            askpass = self._folder / "askpass"
            askpass.write_text(ASKPASS, encoding="ascii")
            askpass.chmod(0o700)
            if not os.path.exists(os.path.join(self.bare, "HEAD")):
                self.run("init", "--quiet", "--bare", "--template=", "--initial-branch=none", self.bare, anywhere=True)
            for left in Path(self.bare, "objects", "pack").glob("tmp_*"):
                left.unlink()  # of a transfer that was ended
            for quarantine in self._folder.glob(f"{_QUARANTINE_PREFIX}*"):
                shutil.rmtree(quarantine, ignore_errors=True)
            yield

    def _take_lock(self, lock: IO[str]) -> None:
        """Take the lock; raise GitError when another transfer keeps it too long, or on cancellation."""
        until = time.monotonic() + self._lock_seconds
        stopped = threading.Event()
        with self._cancel.on_request(stopped.set):
            while not try_lock(lock.fileno()):
                if time.monotonic() >= until:
                    raise build_git_error(
                        GitFailureReason.LOCKED,
                        f"Another transfer with this remote has been under way for {self._lock_seconds:g} seconds. "
                        "Try again later.",
                    )
                if stopped.wait(_POLL_SECONDS):
                    raise build_git_error(GitFailureReason.CANCELLED, "The git operation was cancelled.")

    def read_last_seen(self, branch: str) -> str | None:
        """Return the commit that the remote's branch was at when the server last fetched or pushed it, or None.

        The caller needs no lock for it.
        """
        if not os.path.exists(os.path.join(self.bare, "HEAD")):
            return None
        ref = f"refs/remotes/{self.remote.name}/{branch}"
        status, stdout = self.run("rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}", accept=(0, 1, 128))
        return stdout.decode("ascii", "replace").strip() if status == 0 else None

    @contextmanager
    def quarantine(self) -> Iterator[dict[str, str]]:
        """Yield variables for git under which imported objects are removed after the block.

        A preview needs them: no person has approved these objects yet. The caller holds the lock.
        """
        with TemporaryDirectory(dir=self._folder, prefix=_QUARANTINE_PREFIX) as folder:
            objects = os.path.join(self.bare, "objects")
            yield {"GIT_OBJECT_DIRECTORY": folder, "GIT_ALTERNATE_OBJECT_DIRECTORIES": objects}

    @contextmanager
    def temporary_file(self, name: str) -> Iterator[Path]:
        """Yield the path of a file that is removed after the block."""
        path = self._folder / name
        try:
            yield path
        finally:
            with suppress(FileNotFoundError):
                path.unlink()

    def run(
        self,
        *arguments: str,
        accept: Sequence[int] = (0,),
        anywhere: bool = False,
        variables: Variables = NO_VARIABLES,
    ) -> tuple[int, bytes]:
        """Run git on the repository itself, with no network and no credential."""
        return self._run(arguments, (), variables, Redactor(), accept, anywhere=anywhere)

    def run_remote(
        self, *arguments: str, credential: Credential | None, accept: Sequence[int] = (0,)
    ) -> tuple[int, bytes]:
        """Run git that talks to the remote, and to nothing else."""
        scheme, netloc = urlsplit(self.remote.url)[:2]
        settings = [
            ("protocol.allow", "never"),
            (f"protocol.{scheme}.allow", "always"),
            ("http.followRedirects", "false"),
            ("http.sslVerify", "true"),
            ("http.emptyAuth", "false"),
            ("http.delegation", "none"),
            ("http.lowSpeedLimit", "100"),
            ("http.lowSpeedTime", "60"),
            ("transfer.credentialsInUrl", "die"),
            ("transfer.fsckObjects", "true"),
            ("transfer.bundleURI", "false"),
            ("credential.useHttpPath", "false"),
        ]
        if self.remote.ca_file is not None:
            settings.append(("http.sslCAInfo", self.remote.ca_file))
        variables = {**self._inherited, "GIT_ALLOW_PROTOCOL": scheme}
        if credential is None:
            return self._run(arguments, settings, variables, Redactor(), accept)
        settings.append(("credential.username", credential.username))
        secret = credential.secret.reveal()
        reading, writing = os.pipe()
        try:
            os.write(writing, f"{secret}\n".encode())
        finally:
            os.close(writing)
        try:
            variables |= {
                "GIT_ASKPASS": str(self._folder / "askpass"),
                "WAP_GIT_PIPE": str(reading),
                "WAP_GIT_ASKED": f"{scheme}://{credential.username}@{netloc}",
            }
            return self._run(arguments, settings, variables, Redactor([secret]), accept, inherited=(reading,))
        finally:
            os.close(reading)

    def _run(
        self,
        arguments: Sequence[str],
        settings: Sequence[tuple[str, str]],
        variables: Mapping[str, str],
        redact: Redactor,
        accept: Sequence[int],
        *,
        inherited: Sequence[int] = (),
        anywhere: bool = False,
    ) -> tuple[int, bytes]:
        environment = {"PATH": PATH, **hardened_env.build_variables(settings), **variables}
        if not anywhere:
            environment["GIT_DIR"] = self.bare
        # The remote's messages go to a file, of which the end is read: the remote may send without end.
        with TemporaryFile(dir=self._folder) as messages:
            try:
                process = subprocess.Popen(
                    ["sh", "-c", _LIMITED_GIT, str(MAX_TRANSFERRED_FILE_BYTES // _BLOCK), *arguments],
                    cwd=self._folder,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=messages,
                    pass_fds=inherited,
                    start_new_session=True,
                )
            except OSError as error:
                raise _no_git_error() from error
            stdout = self._read_output(process)
            left_out = messages.seek(max(0, messages.seek(0, os.SEEK_END) - MAX_GIT_MESSAGE_BYTES))
            stderr = messages.read().decode("utf-8", "replace")
        if left_out and (cut := redact.known.open_start(stderr)):
            stderr = f"{MASK}{stderr[cut:]}"
        if self._cancel.requested:
            raise build_git_error(GitFailureReason.CANCELLED, "The git operation was cancelled.", process.returncode)
        if len(stdout) > MAX_GIT_OUTPUT_BYTES:
            raise build_git_error(GitFailureReason.TOO_LARGE, "The remote repository has too many refs or files.")
        if process.returncode == _NOT_FOUND:
            raise _no_git_error()
        if process.returncode not in accept:
            raise parse_git_error(process.returncode, redact(stderr), redact(stdout[:65536].decode("utf-8", "replace")))
        return process.returncode, stdout

    def _read_output(self, process: subprocess.Popen[bytes]) -> bytes:
        """Return what the process prints; kill it on a timeout, on too much output, and on cancellation."""
        late = threading.Event()

        def end() -> None:
            late.set()
            _kill(process)

        clock = threading.Timer(self._timeout, end)
        clock.start()
        try:
            with process, self._cancel.on_request(lambda: _kill(process)):
                assert process.stdout is not None
                stdout = process.stdout.read(MAX_GIT_OUTPUT_BYTES + 1)
                if len(stdout) > MAX_GIT_OUTPUT_BYTES:
                    _kill(process)
        except BaseException:
            _kill(process)
            raise
        finally:
            clock.cancel()
        if late.is_set():
            raise TimedOut(
                f"The remote operation did not end within {self._timeout:g} seconds.", hint="Try again later."
            )
        return stdout


def _no_git_error() -> ProviderUnavailable:
    return ProviderUnavailable("Git cannot be started on the server.", hint="Install git.")


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill git and all that it started, unless it has ended: its number may be another process's then."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
