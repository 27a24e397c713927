"""Simulate which parts of a prompt a server reuses, and how many tokens it processes with other kinds of prompts."""
