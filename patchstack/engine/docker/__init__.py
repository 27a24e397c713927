"""The engine that runs jobs in containers, on this machine or another. Only this package imports `docker`."""
