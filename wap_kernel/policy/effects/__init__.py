"""Judge the changes of a command before they reach the workspace."""
