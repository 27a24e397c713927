"""Define the gate kinds. Each module contains the settings, `run`, and pure functions that judge."""
