"""Run a build's programs and keep what they did. Knows no verdicts, no gates and no llama.cpp."""
