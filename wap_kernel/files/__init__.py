"""Files: containment, and what is done with files inside it."""
