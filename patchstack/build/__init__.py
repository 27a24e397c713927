"""From pin + series to binaries: variant, build key, the build itself, its proofs and its provenance."""
