"""Compare the speed of two sides with pairs of runs in random order."""
