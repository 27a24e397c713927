"""A small upstream of our own, a fork of it and its series: for trying things without a network."""
