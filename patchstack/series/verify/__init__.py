"""Prove that pin + series = fork."""
