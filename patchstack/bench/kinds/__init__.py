"""Kinds of workload, one module each: settings, what is run, and a pure function that reads the figures."""
