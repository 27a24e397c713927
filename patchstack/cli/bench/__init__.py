"""Implement `patchstack bench`, the comparison of two sides, with one module for each command."""
