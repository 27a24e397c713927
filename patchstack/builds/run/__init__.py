"""Run a build on an engine."""
