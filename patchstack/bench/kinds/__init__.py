"""Define the kinds of workload.

Each module defines the settings, the command line, and a pure function that reads the figures.
"""
