"""The stored results of a build: the store, `build.json`, and the provenance statement."""
