"""Explain a run from its logs.

The logs are read, checked and compared, and the bytes and operations of each call are computed, by route, type, shape
and tensor. This package judges logs, and runs nothing.
"""
