"""The engine that runs jobs in containers, on this machine or on a different machine.

Only this package imports `docker`.
"""
