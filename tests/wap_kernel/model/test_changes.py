"""Images of files as they are stored."""

from __future__ import annotations

import json

import pytest

from wap_kernel.model.changes import ABSENT, FileImage


@pytest.mark.parametrize(
    "image",
    [
        ABSENT,
        FileImage("file", 0o644, 0, stamp="1:0:2", stored="a1"),
        FileImage("file", 0, 7, stamp="1:7:2", stored='a1/with "quotes" and\nlines \\ \udcff ü'),
        FileImage("link", target='../"odd"\n\t\\ \udcff ü 語', stamp="3:4:5"),
        FileImage("folder", 0o3777, stamp="6"),
        FileImage("special", 0o666),
    ],
)
def test_an_image_is_stored_as_json_and_read_again(image: FileImage) -> None:
    given = {name: value for name, value in vars(image).items() if value is not None}
    assert json.loads(image.dump()) == given
    assert FileImage.load(image.dump()) == image
