"""Read and edit notebooks cell by cell."""
