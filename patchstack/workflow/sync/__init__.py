"""Move a fork to a newer upstream commit, patch by patch."""
