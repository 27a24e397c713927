"""Which patches upstream is likely to break next."""
