"""A package, so that fixtures of its scope end with it and not with the whole run."""
