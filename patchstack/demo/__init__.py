"""A small upstream with a fork and its series, to try patchstack without a network."""
