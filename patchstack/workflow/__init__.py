"""Run the maintainers' tasks. Only this package combines series, builds and gates."""
