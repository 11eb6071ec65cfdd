"""Images for models: a picture as image content within a budget, or the reason why it is left out."""

from __future__ import annotations

import base64
import io
import posixpath
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from wap_kernel.model.limits import CODING_MAX_IMAGE_BYTES, CODING_MAX_IMAGE_PIXELS
from wap_kernel.model.results import FileContent

if TYPE_CHECKING:
    from PIL.Image import Image

_MEDIA_TYPES = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".webp": "image/webp",
}
_MAX_PIXELS = 50_000_000
"""Pixels of an image that is scaled: a small file can hold a picture that fills the memory."""
_LEAST_PIXELS = 64
_END_BYTES = 32
"""Bytes in which a GIF ends; some programs write a few more."""
_TOO_LARGE = "it is too large to be scaled."
_DAMAGED = "the file is damaged."


@dataclass(frozen=True)
class ImageContent:
    """The content blocks for an image, and what the answer says about it."""

    media_type: str
    blocks: tuple[Mapping[str, Any], ...]
    note: str


def is_image(path: str) -> bool:
    """Return whether the name is that of an image that models can see."""
    return posixpath.splitext(path)[1].lower() in _MEDIA_TYPES


def build_image(path: str, result: FileContent) -> ImageContent | None:
    """Build the content for a file with the name of an image; None where it holds none."""
    if not is_image(path) or result.encoding != "base64" or result.is_truncated:
        return None
    data = base64.b64decode(result.content)
    media_type, size = _find_type(data), _find_size(data)
    if media_type is None or size is None:
        return None
    note = f"The image has {size[0]} x {size[1]} pixels"
    if not _is_whole(media_type, data) or 0 in size:
        scaled: bytes | str = _DAMAGED
    elif len(data) <= CODING_MAX_IMAGE_BYTES and max(size) <= CODING_MAX_IMAGE_PIXELS:
        return ImageContent(media_type, (_build_block(media_type, data),), f"{note}.")
    else:
        scaled = _scale(data, size)
    if isinstance(scaled, bytes):
        limit = f"at most {CODING_MAX_IMAGE_PIXELS} pixels"
        return ImageContent(media_type, (_build_block("image/png", scaled),), f"{note}; it is scaled to {limit}.")
    link = {
        "type": "resource_link",
        "uri": f"file://{quote(result.metadata.path)}",
        "name": path,
        "mimeType": media_type,
        "size": len(data),
    }
    return ImageContent(media_type, (link,), f"{note} and {len(data)} bytes; it is left out: {scaled}")


def _build_block(media_type: str, data: bytes) -> Mapping[str, Any]:
    return {"type": "image", "data": base64.b64encode(data).decode("ascii"), "mimeType": media_type}


def _scale(data: bytes, size: tuple[int, int]) -> bytes | str:
    """Return the picture as a PNG within the budget, or the reason why there is none."""
    if size[0] * size[1] > _MAX_PIXELS:
        return _TOO_LARGE
    try:
        from PIL import Image
    except ImportError:
        return "Pillow, which scales images, is not installed on the server (pip install Pillow)."
    try:
        with Image.open(io.BytesIO(data)) as image:
            if image.width * image.height > _MAX_PIXELS:  # the head of the file said otherwise
                return _TOO_LARGE
            return _encode_scaled(_convert_mode(image)) or "it does not fit into the budget."
    except Exception:  # noqa: BLE001 - a damaged file makes decoders raise anything
        return _DAMAGED


def _convert_mode(image: Image) -> Image:
    """Return the image in a mode that can be scaled and saved."""
    if image.mode.startswith("I;16"):  # a plain conversion would make nearly every pixel white
        image = image.convert("I").point(lambda value: value * (1 / 256)).convert("L")
    return image.convert("RGBA" if image.mode in ("RGBA", "LA", "P") else "RGB")


def _encode_scaled(picture: Image) -> bytes | None:
    """Return the picture as a PNG within the budget; None where none is small enough."""
    longest = CODING_MAX_IMAGE_PIXELS
    while longest >= _LEAST_PIXELS:
        picture.thumbnail((longest, longest))
        target = io.BytesIO()
        picture.save(target, "PNG", optimize=True)
        if target.tell() <= CODING_MAX_IMAGE_BYTES:
            return target.getvalue()
        longest //= 2
    return None


def _is_whole(media_type: str, data: bytes) -> bool:
    """Return whether the file has its end: models refuse a picture that was cut, and the conversation with it."""
    match media_type:
        case "image/png":
            return b"IEND" in data
        case "image/jpeg":
            return b"\xff\xd9" in data
        case "image/gif":
            return b"\0;" in data[-_END_BYTES:]
        case _:
            return len(data) >= 8 + int.from_bytes(data[4:8], "little")


def _find_type(data: bytes) -> str | None:
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    return "image/webp" if data[:4] == b"RIFF" and data[8:12] == b"WEBP" else None


def _find_size(data: bytes) -> tuple[int, int] | None:
    """Return width and height from the head of the file."""
    try:
        match _find_type(data):
            case "image/png":
                width, height = struct.unpack(">II", data[16:24])
            case "image/gif":
                width, height = struct.unpack("<HH", data[6:10])
            case "image/jpeg":
                return _find_jpeg_size(data)
            case "image/webp":
                return _find_webp_size(data)
            case _:
                return None
    except struct.error:
        return None
    return width, height


def _find_jpeg_size(data: bytes) -> tuple[int, int] | None:
    position = 2
    while position + 9 < len(data) and data[position] == 0xFF:
        marker, (length,) = data[position + 1], struct.unpack(">H", data[position + 2 : position + 4])
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack(">HH", data[position + 5 : position + 9])
            return width, height
        position += 2 + length
    return None


def _find_webp_size(data: bytes) -> tuple[int, int] | None:
    kind = data[12:16]
    if kind == b"VP8X":
        return int.from_bytes(data[24:27], "little") + 1, int.from_bytes(data[27:30], "little") + 1
    if kind == b"VP8 ":
        width, height = struct.unpack("<HH", data[26:30])
        return width & 0x3FFF, height & 0x3FFF
    if kind == b"VP8L":
        bits = int.from_bytes(data[21:25], "little")
        return (bits & 0x3FFF) + 1, ((bits >> 14) & 0x3FFF) + 1
    return None
