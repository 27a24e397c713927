"""Explain a run from its logs.

The package reads, checks and compares logs. It computes the bytes and operations of calls, by route, type, shape and
tensor. It does not run programs.
"""
