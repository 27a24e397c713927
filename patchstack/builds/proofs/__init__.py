"""Proofs about binaries, one kind in each module.

They inspect and run the binaries themselves. The options and the exit code of a build prove nothing about its binaries.
"""
