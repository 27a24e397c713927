"""The engine that runs jobs in containers."""
