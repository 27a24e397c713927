"""Files and processes of this machine: atomic replacement, locks, journals, `/proc`.

This package does not depend on git or patches.
"""
