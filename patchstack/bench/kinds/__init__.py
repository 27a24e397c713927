"""The kinds of workload. Each module has the settings, the command line, and a pure function for reading the
figures."""
