"""Provide a small upstream repository, a fork and a series, to try patchstack without a network."""
