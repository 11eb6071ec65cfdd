"""Match paths against globs."""
