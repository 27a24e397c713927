"""Show results as text for people and documents for programs. Nothing is decided here."""
