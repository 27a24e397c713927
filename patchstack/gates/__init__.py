"""Checks that a build must pass, and suites of them. A verdict is drawn here, from observations."""
