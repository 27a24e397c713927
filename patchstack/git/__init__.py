"""Git: objects read through libgit2, patches applied in memory, and git itself for all else."""
