"""`patchstack trace`: one small file a command."""
