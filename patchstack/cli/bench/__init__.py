"""`patchstack bench`: comparisons of two sides, with one module for each command."""
