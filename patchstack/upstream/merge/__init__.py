"""Three-way merge of patches onto another upstream commit."""
