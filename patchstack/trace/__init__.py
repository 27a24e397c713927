"""Explain a run from its logs. This package judges logs, and runs nothing.

The logs are read, checked and compared. The bytes and operations of each call are computed, by route, type, shape and
tensor.
"""
