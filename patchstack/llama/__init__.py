"""Build the arguments of llama.cpp's tools, and parse their output. This package does not judge results."""
