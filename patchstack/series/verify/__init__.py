"""Prove that pin + series = fork.

The modules compute the prefix trees, find the commit of each patch, and explain drift.
"""
