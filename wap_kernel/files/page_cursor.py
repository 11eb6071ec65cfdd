"""Cursors of listings and searches: opaque texts that say where the next page begins. Pure.

A cursor holds the number of entries before the page and a digest of the request, so that one of another request is
refused. Pages fit together as long as nothing changes in between; the totals are those of the moment.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json

from wap_kernel.model.errors import InvalidArgument
from wap_kernel.model.operations import ListFiles, SearchFiles

_DIGEST_CHARACTERS = 16
_MAX_OFFSET = 2**53


def encode_cursor(operation: ListFiles | SearchFiles, offset: int) -> str:
    """Return the cursor of the page that begins after `offset` entries."""
    text = json.dumps([offset, _make_digest(operation)], separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode("ascii")).decode("ascii").rstrip("=")


def decode_cursor(operation: ListFiles | SearchFiles) -> int:
    """Return the number of entries before the page that the operation asks for; 0 without a cursor."""
    cursor = operation.cursor
    if cursor is None:
        return 0
    try:
        data = base64.b64decode(cursor.encode("ascii") + b"=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        offset, _ = json.loads(data)
    except (UnicodeEncodeError, binascii.Error, ValueError, TypeError, RecursionError):
        raise _build_error("The cursor is not one of this server.") from None
    if type(offset) is not int or not 0 < offset <= _MAX_OFFSET or encode_cursor(operation, offset) != cursor:
        raise _build_error("The cursor belongs to another request.")
    return offset


def _make_digest(operation: ListFiles | SearchFiles) -> str:
    # A page may have another size than the one before, and a confirmation changes no entry.
    fields = operation.model_dump_json(exclude={"cursor", "limit", "confirmed"})
    return hashlib.sha256(f"{operation.kind}{fields}".encode()).hexdigest()[:_DIGEST_CHARACTERS]


def _build_error(text: str) -> InvalidArgument:
    return InvalidArgument(text, hint="Repeat the request with the nextCursor of its own answer, or without one.")
