"""Gate kinds, one module each."""
