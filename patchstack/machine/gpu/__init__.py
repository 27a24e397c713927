"""GPUs: the lock, preflight checks, other users."""
