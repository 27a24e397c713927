"""A small upstream of our own, a fork of it and its series: for trying things out, with no network and no compiler."""
