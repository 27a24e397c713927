"""Read the traces that llama.cpp, this series and the notebook's forks print.

This package defines the formats of the traces, counts the records of a log in one pass, checks their consistency, and
evaluates expectations. It is used by gates and by the command `trace`, which do not import each other. It opens no
files and does not judge results.
"""
