"""Check whether the files of a tree keep the promises that patches make about them.

The package contains the kinds of checks and the code that runs them.
"""
