"""What is known of llama.cpp's tools: arguments, output formats, server replies. Draws no verdicts."""
