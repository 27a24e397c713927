"""`patchstack bench`: comparisons of two sides, one small file a command."""
