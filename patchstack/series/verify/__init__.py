"""Prove that pin + series = fork: prefix trees, the commit of each patch, drift."""
