"""The tasks of maintainers from end to end. Only this package combines series, builds and gates."""
