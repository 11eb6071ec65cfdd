"""Replace by regular expressions as JavaScript does."""
