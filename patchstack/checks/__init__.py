"""Check what a patch promises about the source, on any tree.

The package contains the kinds of checks and the code that runs them.
"""
