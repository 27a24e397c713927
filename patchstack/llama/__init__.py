"""Knowledge of llama.cpp's tools: arguments, output formats, server responses. This package gives no verdicts."""
