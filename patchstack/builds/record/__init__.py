"""What is kept of a build: binaries, record, provenance."""
