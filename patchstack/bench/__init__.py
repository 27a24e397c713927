"""Compare two sides by pairs of runs in random order, and draw verdicts on speed."""
