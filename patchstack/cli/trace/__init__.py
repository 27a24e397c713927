"""`patchstack trace`: one module for each command."""
