"""Compare two sides by pairs of runs, in an order given by a coin. Verdicts of speed are drawn here."""
