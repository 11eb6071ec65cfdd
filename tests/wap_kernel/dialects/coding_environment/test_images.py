"""Images for models: never a picture that is not whole, never one that fills the memory."""

from __future__ import annotations

import base64
import io
import struct
import zlib
from typing import Any

import pytest
from PIL import Image

from wap_kernel.dialects.coding_environment import images, outcome
from wap_kernel.dialects.coding_environment.tools import TOOLS
from wap_kernel.model.limits import CODING_MAX_IMAGE_BYTES
from wap_kernel.model.operations import ReadFile
from wap_kernel.model.results import FileContent, FileMetadata

PNG = b"\x89PNG\r\n\x1a\n"


def _content(data: bytes, path: str = "a.png") -> FileContent:
    metadata = FileMetadata(
        path=f"/root/{path}",
        size=len(data),
        is_directory=False,
        last_modified="2026-01-01T00:00:00Z",
    )
    content = base64.b64encode(data).decode()
    return FileContent(
        content=content,
        encoding="base64",
        metadata=metadata,
        is_truncated=False,
        total_lines=1,
        returned_lines=1,
        hash="sha256:0",
    )


def _encode(image: Image.Image, kind: str = "PNG") -> bytes:
    target = io.BytesIO()
    image.save(target, kind)
    return target.getvalue()


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _build(data: bytes) -> tuple[dict[str, Any], str]:
    content = images.build_image("a.png", _content(data))
    assert content is not None
    (block,) = content.blocks
    return dict(block), content.note


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "WEBP"])
def test_a_file_that_was_cut_is_left_out(kind: str) -> None:
    whole = _encode(Image.linear_gradient("L").convert("RGB"), kind)
    assert _build(whole)[0]["type"] == "image"
    block, note = _build(whole[: len(whole) // 2])
    assert block["type"] == "resource_link" and note.endswith("the file is damaged.")


def test_a_picture_without_pixels_is_left_out() -> None:
    header = _chunk(b"IHDR", struct.pack(">IIBBBBB", 0, 0, 8, 2, 0, 0, 0))
    block, _ = _build(PNG + header + _chunk(b"IEND", b""))
    assert block["type"] == "resource_link"


def test_a_picture_that_is_larger_than_the_head_of_its_file_says_is_left_out() -> None:
    text = _chunk(b"tEXt", struct.pack(">II", 5, 5) + b"a\0" + b"x" * CODING_MAX_IMAGE_BYTES)
    header = _chunk(b"IHDR", struct.pack(">IIBBBBB", 9_000, 9_000, 8, 2, 0, 0, 0))
    block, note = _build(PNG + text + header + _chunk(b"IDAT", zlib.compress(b"\0")) + _chunk(b"IEND", b""))
    assert block["type"] == "resource_link" and note.endswith("too large to be scaled.")


def test_a_picture_of_16_bits_keeps_its_shades() -> None:
    dark = Image.frombytes("I;16", (2000, 10), struct.pack("<H", 20_000) * 20_000)
    block, _ = _build(_encode(dark))
    shown = Image.open(io.BytesIO(base64.b64decode(block["data"])))
    assert shown.getpixel((0, 0)) == (78, 78, 78)


def test_a_decoder_that_fails_is_no_error_of_the_tool(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise IndexError

    monkeypatch.setattr(Image, "open", fail)
    assert _build(_encode(Image.new("RGB", (3000, 3000))))[1].endswith("the file is damaged.")


def test_a_picture_is_scaled_once_for_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    scaled: list[int] = []
    scale = images._scale

    def count(data: bytes, size: tuple[int, int]) -> bytes | str:
        scaled.append(len(data))
        return scale(data, size)

    monkeypatch.setattr(images, "_scale", count)
    result = _content(_encode(Image.new("RGB", (3000, 30))))
    encoded = outcome.encode_result(TOOLS["readFile"], ReadFile(path="a.png"), result)
    assert (encoded.blocks[0]["type"], len(scaled)) == ("image", 1)
