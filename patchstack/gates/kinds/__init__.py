"""Gate kinds, one module each: settings, run, and pure functions that judge."""
