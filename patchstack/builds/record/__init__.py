"""What is kept of a build: the store, build.json, the provenance statement."""
