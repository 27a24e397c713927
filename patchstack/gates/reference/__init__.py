"""References of gates: how they are recorded, and when a new reference is admissible."""
