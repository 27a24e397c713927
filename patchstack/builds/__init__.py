"""Build a patched source tree, and prove what the binaries are."""
