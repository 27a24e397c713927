"""The engine that runs jobs on this machine, as processes with directories for volumes."""
