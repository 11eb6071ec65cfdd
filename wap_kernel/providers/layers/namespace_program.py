"""The program that prepares the mounts of one sandbox in a namespace of its own, and then becomes the sandbox.

The server starts it ahead of time and sends one message: descriptors, first that of a file with its task. The program
mounts the overlay of a Layer on the workspace, or joins the namespace of another such program that has; mounts the
guards; and executes a command such as bubblewrap, which takes the guarded workspace as it is. Without a command it
holds the namespace until the server closes the connection.

Everything is opened without following links and mounted by descriptor, so a folder that is exchanged for a link
meanwhile leads nowhere, and no mount point is ever created.

This file is sent as source to another process, see `launcher.py`: it imports the standard library only, and nothing of
this package. Errors go back as one message.
"""

from __future__ import annotations

# Modules in C where there is one: `socket`, `signal`, `json` and `typing` take as long to load as Python itself.
import _signal  # type: ignore[import-not-found]
import _socket
import ctypes
import errno
import fcntl
import marshal
import os
import stat
import struct
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MAX_DESCRIPTORS = 16

_NEWNS, _NEWUSER = 0x00020000, 0x10000000
_MS_REC, _MS_PRIVATE = 0x4000, 1 << 18
_AT_EMPTY_PATH, _AT_RECURSIVE = 0x1000, 0x8000
_VOLATILE_MARK = "work/incompat/volatile"
_OPEN_TREE_CLONE, _CLOEXEC = 1, os.O_CLOEXEC
_MOVE_EMPTY_PATHS = 0x00000004 | 0x00000040
_FSCONFIG_SET_FLAG, _FSCONFIG_SET_STRING, _FSCONFIG_CREATE = 0, 1, 6
_ATTR_RDONLY, _ATTR_NOSUID, _ATTR_NODEV = 0x1, 0x2, 0x4
_RESOLVE_BENEATH_NO_LINKS = 0x08 | 0x04 | 0x02

# The numbers of system calls that were added since 2019 are the same on every architecture.
_OPEN_TREE, _MOVE_MOUNT, _FSOPEN, _FSCONFIG, _FSMOUNT, _OPENAT2, _MOUNT_SETATTR = 428, 429, 430, 431, 432, 437, 442

_libc = ctypes.CDLL(None, use_errno=True)


class TaskError(Exception):
    """A task that cannot be done; `kind` is `race` where the workspace has changed since it was planned."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


def main() -> int:
    _reset_signals()
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET, 0, os.dup(0))
    descriptors = _receive(connection)
    if not descriptors:
        return 0  # the server no longer needs it
    with open(descriptors.pop(0), "rb") as file:
        task = marshal.load(file)
    try:
        _enter_namespaces(task, descriptors)
        base = _mount_workspace(task)
        for kind, path in task["guards"]:
            _mount_guard(base, kind, path, task["empty"])
        if task["command"] is None:
            _hold(connection, base)
            return 0
        _execute(task, descriptors)
    except TaskError as error:
        _send_error(connection, error.kind, str(error))
    except OSError as error:
        text = f"{error.strerror} ({error.filename or 'system call'})"
        _send_error(connection, "too long" if error.errno == errno.E2BIG else "failed", text)
    return 1


def _reset_signals() -> None:
    """Set every signal to its default action: exec inherits what the server ignores or blocks."""
    for number in _signal.valid_signals() - {_signal.SIGKILL, _signal.SIGSTOP}:
        try:
            _signal.signal(number, _signal.SIG_DFL)
        except OSError:
            pass  # reserved by the C library
    _signal.pthread_sigmask(_signal.SIG_SETMASK, ())


def _receive(connection: _socket.socket) -> list[int]:
    size = struct.calcsize("i")
    _, ancillary, _, _ = connection.recvmsg(1, _socket.CMSG_SPACE(MAX_DESCRIPTORS * size))
    descriptors = [number for _, _, raw in ancillary for (number,) in struct.iter_unpack("i", raw)]
    for descriptor in descriptors:
        os.set_inheritable(descriptor, False)
    return descriptors


def _send_error(connection: _socket.socket, kind: str, text: str) -> None:
    connection.send(marshal.dumps({"error": kind, "text": text}))


# -- namespaces


def _enter_namespaces(task: dict[str, Any], descriptors: list[int]) -> None:
    if task["joins"]:
        for descriptor, kind in zip(descriptors[-2:], (_NEWUSER, _NEWNS), strict=True):
            if kind == _NEWNS or task["userNamespace"]:
                _check(_libc.setns(descriptor, kind), "setns")
        _check(_libc.unshare(_NEWNS), "unshare")
    else:
        user, group = os.geteuid(), os.getegid()
        _check(_libc.unshare(_NEWNS | (_NEWUSER if task["userNamespace"] else 0)), "unshare")
        if task["userNamespace"]:
            _write("/proc/self/setgroups", "deny")
            _write("/proc/self/uid_map", f"{user} {user} 1")
            _write("/proc/self/gid_map", f"{group} {group} 1")
    # What is mounted from now on must not appear in the namespace of the server.
    _check(_libc.mount(None, b"/", None, _MS_REC | _MS_PRIVATE, None), "mount private")


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


# -- mounts


def _mount_workspace(task: dict[str, Any]) -> int:
    """Return a descriptor of the workspace as the sandbox shall see it."""
    root = os.open(task["root"], os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    layer = task["layer"]
    if task["joins"]:
        base = root
    else:
        found = os.fstat(root)
        if [found.st_dev, found.st_ino] != task["identity"]:
            raise TaskError("moved", "another folder has the path of the workspace")
        base = root if layer is None else _mount_overlay(root, layer, task["userNamespace"])
    if task["readOnly"]:
        tree = _clone_tree(base)
        _set_read_only(tree)
        _move_mount(tree, os.open(task["root"], os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC))
        base = tree
    return base


def _mount_overlay(root: int, layer: dict[str, str], user_namespace: bool) -> int:
    _remove_mark(os.path.join(layer["workdir"], _VOLATILE_MARK))
    context = _system_call(_FSOPEN, b"overlay", 1)
    options = {"source": "wap", "lowerdir": _path_of(root)}
    for name in ("upperdir", "workdir"):
        options[name] = _path_of(os.open(layer[name], os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC))
    options["index"] = options["metacopy"] = "off"
    if not user_namespace:
        options["redirect_dir"] = "on"
    for name, value in options.items():
        _configure(context, name, value)
    # Else the kernel syncs every file that it copies into the layer, and the whole filesystem with every unmount. The
    # server syncs once, when the layer is applied or kept.
    for flag in ("volatile", "userxattr") if user_namespace else ("volatile",):
        _system_call(_FSCONFIG, context, _FSCONFIG_SET_FLAG, flag.encode(), None, 0)
    _system_call(_FSCONFIG, context, _FSCONFIG_CREATE, None, None, 0)
    mount = _system_call(_FSMOUNT, context, 1, _ATTR_NOSUID | _ATTR_NODEV)
    _move_mount(mount, root)
    return mount


def _remove_mark(path: str) -> None:
    """Remove the mark of an earlier mount of the layer, with which the kernel mounts a volatile layer once only."""
    try:
        os.unlink(f"{path}/dirty")
        os.rmdir(path)
    except FileNotFoundError:
        pass


def _configure(context: int, name: str, value: str) -> None:
    _system_call(_FSCONFIG, context, _FSCONFIG_SET_STRING, name.encode(), value.encode(), 0)


def _mount_guard(base: int, kind: str, path: str, empty: str) -> None:
    target = _open_beneath(base, path)
    mode = os.fstat(target).st_mode
    is_as_planned = stat.S_ISDIR(mode) == (kind == "hidden folder") or not kind.startswith("hidden")
    if stat.S_ISLNK(mode) or not is_as_planned:
        raise TaskError("race", f"{path} is no longer what it was")
    if kind == "hidden folder":
        mount = _mount_empty_folder()
    elif kind == "hidden file":
        mount = _clone_tree(os.open(empty, os.O_PATH | os.O_CLOEXEC))
    else:
        mount = _clone_tree(target)
    if kind in ("hidden file", "read-only"):
        _set_read_only(mount)
    _move_mount(mount, target)
    os.close(mount)
    os.close(target)


def _mount_empty_folder() -> int:
    context = _system_call(_FSOPEN, b"tmpfs", 1)
    for name, value in (("source", "wap"), ("mode", "0555"), ("size", "4096")):
        _configure(context, name, value)
    _system_call(_FSCONFIG, context, _FSCONFIG_CREATE, None, None, 0)
    mount = _system_call(_FSMOUNT, context, 1, _ATTR_RDONLY | _ATTR_NOSUID | _ATTR_NODEV)
    os.close(context)
    return mount


def _open_beneath(base: int, path: str) -> int:
    how = (ctypes.c_uint64 * 3)(os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, 0, _RESOLVE_BENEATH_NO_LINKS)
    try:
        return _system_call(_OPENAT2, base, os.fsencode(path), ctypes.byref(how), ctypes.sizeof(how))
    except OSError as error:
        raise TaskError("race", f"{path}: {error.strerror}") from None


def _clone_tree(descriptor: int) -> int:
    flags = _OPEN_TREE_CLONE | _AT_RECURSIVE | _AT_EMPTY_PATH | _CLOEXEC
    return _system_call(_OPEN_TREE, descriptor, b"", flags)


def _set_read_only(mount: int) -> None:
    attributes = (ctypes.c_uint64 * 4)(_ATTR_RDONLY, 0, 0, 0)
    flags = _AT_EMPTY_PATH | _AT_RECURSIVE
    _system_call(_MOUNT_SETATTR, mount, b"", flags, ctypes.byref(attributes), ctypes.sizeof(attributes))


def _move_mount(mount: int, target: int) -> None:
    _system_call(_MOVE_MOUNT, mount, b"", target, b"", _MOVE_EMPTY_PATHS)


def _path_of(descriptor: int) -> str:
    return f"/proc/self/fd/{descriptor}"


def _system_call(number: int, *arguments: Any) -> int:
    return _check(_libc.syscall(ctypes.c_long(number), *arguments), str(number))


def _check(result: int, name: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), name)
    return result


# -- ends


def _hold(connection: _socket.socket, base: int) -> None:
    """Send the descriptors of the workspace and of the namespaces, and wait until the server closes the connection."""
    opened = [
        base,
        os.open("/proc/self/ns/user", os.O_RDONLY | os.O_CLOEXEC),
        os.open("/proc/self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC),
    ]
    rights = struct.pack(f"{len(opened)}i", *opened)
    connection.sendmsg([marshal.dumps({})], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, rights)])
    for descriptor in opened:
        os.close(descriptor)
    connection.recv(1)


def _execute(task: dict[str, Any], descriptors: list[int]) -> None:
    """Become the command, with each descriptor at the number that the task names."""
    command = task["command"]
    numbers = command["descriptors"]
    # First out of the way: a number may be taken by another of them.
    moved = [_duplicate_above(descriptor, 64) for descriptor in descriptors[: len(numbers)]]
    for descriptor, number in zip(moved, numbers, strict=True):
        os.dup2(descriptor, number, inheritable=True)
    os.execve(command["argv"][0], command["argv"], command["environment"])


def _duplicate_above(descriptor: int, least: int) -> int:
    return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, least)


if __name__ == "__main__":
    sys.exit(main())
