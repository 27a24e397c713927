"""The engine that runs jobs as processes on this machine. Its volumes are directories."""
