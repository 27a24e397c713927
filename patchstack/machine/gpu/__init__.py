"""GPUs: the lock, the preflight checks, other users."""
