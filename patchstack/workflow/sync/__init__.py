"""Move a fork to a newer upstream commit."""
