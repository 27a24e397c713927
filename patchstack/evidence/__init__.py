"""Store observations by key, and the decisions that are based on them."""
