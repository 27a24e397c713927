"""Implement `patchstack trace`, with one module for each command."""
