"""Proofs about binaries. Each module has one kind. They inspect files and devices, never flags or exit codes."""
