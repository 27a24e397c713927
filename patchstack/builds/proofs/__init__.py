"""Proofs about binaries."""
