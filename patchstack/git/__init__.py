"""Git: objects read by one running git, trees edited in memory, and git itself for everything else."""
