"""Replace files atomically, lock them, write journals of changes, and read `/proc`.

This package does not depend on git or patches.
"""
