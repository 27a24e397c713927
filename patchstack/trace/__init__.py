"""Explain a run by its logs: read, check and compare them, and compute what each call reads and computes, by route,
type, shape and tensor. Judges logs, and runs nothing."""
