"""Read git objects through one running git process, edit trees in memory, and run git for everything else."""
