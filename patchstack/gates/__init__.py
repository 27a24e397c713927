"""Checks that a build must pass, and suites of them. Verdicts are drawn here from observations."""
