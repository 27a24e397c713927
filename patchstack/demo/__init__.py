"""A small upstream repository with a fork and a series, for trying patchstack without a network."""
