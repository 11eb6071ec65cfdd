"""Policy: what may be done. Decisions are pure; enforcement stands in the file primitives and the pipeline."""
