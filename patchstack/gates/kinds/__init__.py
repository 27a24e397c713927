"""The gate kinds. Each module has settings, `run`, and pure functions that judge."""
