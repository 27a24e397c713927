"""Build a patched source tree, and prove properties of the binaries."""
