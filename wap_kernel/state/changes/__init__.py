"""Change the workspace so that every change can be taken back."""
