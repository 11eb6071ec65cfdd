"""Record the changes of one operation: each is logged before it is made, and what it displaces moves into the store."""

from __future__ import annotations


class ChangeRecorder:
    """A Changer (see `files/contained/changer.py`) that logs every change of one operation of a run."""
