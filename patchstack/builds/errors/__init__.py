"""The output of compilers, reduced to the first real error and the patch that wrote the line."""
