"""Three-way merge of a patch, or a whole series, onto another tree."""
