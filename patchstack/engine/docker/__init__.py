"""The engine that runs jobs in containers, on this or another machine.

Only this package imports `docker`.
"""
