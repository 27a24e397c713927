"""Replace and lock files, and read the processes of this machine.

This package does not depend on git or patches.
"""
