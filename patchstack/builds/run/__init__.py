"""Run a build on an engine: the commands, the progress, and all steps up to the record."""
