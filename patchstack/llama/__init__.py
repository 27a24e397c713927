"""Knowledge of llama.cpp's tools: arguments, output formats, server replies. Nothing here gives verdicts."""
