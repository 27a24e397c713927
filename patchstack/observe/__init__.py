"""Run a build's programs and keep what they did. Knows no verdicts."""
