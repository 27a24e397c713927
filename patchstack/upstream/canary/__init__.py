"""Apply a series to a newer upstream commit, and name the commits that break it."""
