"""Simulate how a server reuses prompts, and how many tokens it processes.

The number of tokens is also computed for other kinds of prompts.
"""
