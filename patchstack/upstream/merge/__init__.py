"""Merge a patch, or a whole series, three-way onto another tree."""
