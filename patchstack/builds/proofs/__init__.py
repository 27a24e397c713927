"""Proofs about binaries, one kind in each module. They inspect files and devices, and do not rely on flags or exit
codes."""
