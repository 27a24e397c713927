"""Git: objects read through libgit2, trees edited in memory, and git itself for everything else."""
