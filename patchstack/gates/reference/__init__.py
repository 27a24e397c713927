"""Record the references of gates, and decide whether a new reference is admissible."""
