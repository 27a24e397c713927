"""Run a build on an engine: commands, progress, and the steps from a cache miss to a record."""
