"""Record every operation in a hash chain."""
