"""Show results as text for people and as documents for programs. This package does not compute results."""
