"""Prove that pin + series = fork.

This needs the prefix trees, the commit of each patch, and the drift.
"""
