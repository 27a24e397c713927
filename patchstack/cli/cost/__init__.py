"""`patchstack cost`: the least cost of a model, with one module for each command."""
