"""Measurements anyone can repeat."""
