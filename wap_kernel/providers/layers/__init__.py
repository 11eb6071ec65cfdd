"""Layers: commands write above the workspace, and what they wrote is read as a ChangeSet."""
