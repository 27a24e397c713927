"""Simulate how a server reuses prompts, and how many tokens it processes.

Also compute the number of processed tokens for prompts that only grow, and for prompts that end with images.
"""
