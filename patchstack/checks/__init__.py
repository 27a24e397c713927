"""Checks of what a patch promises about the source, on any tree: the kinds of checks, and the code that runs them."""
