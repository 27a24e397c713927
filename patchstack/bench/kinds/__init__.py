"""The kinds of workload. Each module has the settings, the command line, and a pure function that reads the figures."""
