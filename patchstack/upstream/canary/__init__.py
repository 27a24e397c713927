"""Apply a series to a newer commit, and name the upstream commits that break a patch."""
