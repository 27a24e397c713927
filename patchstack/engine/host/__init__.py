"""The engine that runs jobs on this machine."""
