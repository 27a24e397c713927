"""The series of patches: its files, its lock, and its fork."""
