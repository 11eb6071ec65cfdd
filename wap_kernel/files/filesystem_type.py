"""Detect network filesystems.

SQLite's write-ahead log needs memory that processes share, which a network filesystem does not provide: processes on
two machines would each see a log of their own. FUSE counts as one, since sshfs and bucket mounts are FUSE; for a local
FUSE filesystem the other journal is slower and as safe.
"""

from __future__ import annotations

import ctypes
import os
import sys

NETWORK_TYPES = {
    0x00006969: "nfs",
    0x0000517B: "smb",
    0xFF534D42: "cifs",
    0xFE534D42: "smb2",
    0x65735546: "fuse",
    0x01021997: "9p",
    0x0BD00BD0: "lustre",
    0x47504653: "gpfs",
    0x00C36400: "ceph",
    0x5346414F: "afs",
    0x6B414653: "afs",
    0x73757245: "coda",
    0x01161970: "gfs2",
    0x7461636F: "ocfs2",
    0x19830326: "beegfs",
    0xAAD7AAEA: "panfs",
    0x20030528: "orangefs",
    0x786F4256: "vboxsf",
    0xBACBACBC: "vmhgfs",
}
"""The names of network filesystems by the `f_type` of statfs(2)."""
_STATFS_SIZE = 512
"""Bytes of a buffer for statfs(2), more than any architecture needs. `f_type` is its first field, of four bytes."""


def is_network_filesystem(folder: str) -> bool:
    """Return whether `folder` is on a network filesystem; an unknown one counts, since the safe journal works there."""
    if not sys.platform.startswith("linux"):
        return False
    kind = _get_type(folder)
    return kind is None or kind in NETWORK_TYPES


def _get_type(folder: str) -> int | None:
    statfs = ctypes.CDLL(None, use_errno=True).statfs
    statfs.argtypes = (ctypes.c_char_p, ctypes.c_void_p)
    found = ctypes.create_string_buffer(_STATFS_SIZE)
    if statfs(os.fsencode(folder), found) != 0:
        return None
    return int(ctypes.c_long.from_buffer(found).value & 0xFFFFFFFF)
