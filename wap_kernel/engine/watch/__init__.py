"""Watch the workspace and the disk while commands run."""
