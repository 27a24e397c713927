"""Compute the statistics of paired comparisons and of server runs.

All functions are pure: they run no programs and read no files.
"""
