"""Judge builds with gates and suites of gates.

A gate is a check that a build must pass. Its verdict is computed from observations.
"""
