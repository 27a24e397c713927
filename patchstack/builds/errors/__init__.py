"""Compiler output: the first error, and the patch that caused it."""
