"""Keep before-images of changes and revert them."""
