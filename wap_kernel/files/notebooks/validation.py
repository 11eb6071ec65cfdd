"""Refuse text writes that would leave a notebook invalid."""

from __future__ import annotations

from wap_kernel.model.errors import InvalidArgument
from wap_kernel.model.hints import EDIT_CELLS

_MALFORMED = (ValueError, KeyError, TypeError, AttributeError, ArithmeticError, RecursionError)
"""The errors of nbformat on JSON that is no notebook, besides its own ValidationError."""


def is_notebook(path: str) -> bool:
    return path.lower().endswith(".ipynb")


def require_valid(path: str, data: bytes) -> None:
    """Raise InvalidArgument unless `data` is a valid notebook."""
    import nbformat  # slow to import, and most operations never need it

    try:
        notebook = nbformat.reads(data.decode("utf-8"), as_version=nbformat.NO_CONVERT)
        nbformat.validate(notebook)
    except (*_MALFORMED, nbformat.ValidationError) as error:
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise InvalidArgument(
            f"This would leave an invalid notebook: {path}: {reason[:200]}",
            hint=EDIT_CELLS,
            path=path,
        ) from None
