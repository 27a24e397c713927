"""Implement `patchstack cost`, the minimum cost of a model, with one module for each command."""
