"""References of gates: record them, and decide when a new one is admissible."""
