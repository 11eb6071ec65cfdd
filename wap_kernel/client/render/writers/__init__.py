"""Write blocks as HTML for notebooks and as text for terminals."""
