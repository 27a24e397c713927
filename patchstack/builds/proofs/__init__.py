"""Proofs about binaries, one module a kind. They look at files and devices, never at flags or exit codes."""
